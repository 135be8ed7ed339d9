/** A TCP proxy in front of PostgreSQL that notes every statement which passes: counted where the server is, not in our code. */
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

export interface CountingProxy {
  /** The given URL with the proxy's host and port. */
  readonly url: string;
  /** The texts of the statements, in order; to be emptied at will. */
  readonly statements: string[];
  close(): Promise<void>;
}

export async function startCountingProxy(url: string): Promise<CountingProxy> {
  const to = new URL(url);
  const statements: string[] = [];
  const open = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(Number(to.port || 5432), to.hostname);
    const note = statementReader((text) => statements.push(text));
    for (const [from, into] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      open.add(from);
      from.on('error', () => into.destroy());
      from.on('close', () => {
        open.delete(from);
        into.destroy();
      });
      from.on('data', (chunk: Buffer) => {
        if (from === client) note(chunk);
        into.write(chunk);
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const through = new URL(url);
  through.hostname = '127.0.0.1';
  through.port = String((server.address() as AddressInfo).port);
  return {
    url: through.href,
    statements,
    close() {
      for (const socket of open) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

/**
 * Takes the client's side of the protocol apart: a first message without a type, then a type, a length that includes itself,
 * and a body. `Q` is a simple query, `P` the text of an extended one. Source: PostgreSQL, "Message Formats".
 */
function statementReader(found: (text: string) => void): (chunk: Buffer) => void {
  let pending = Buffer.alloc(0);
  let hasBegun = false;
  return (chunk) => {
    pending = Buffer.concat([pending, chunk]);
    for (;;) {
      const head = hasBegun ? 1 : 0;
      if (pending.length < head + 4) return;
      const length = head + pending.readInt32BE(head);
      if (pending.length < length) return;
      const type = hasBegun ? String.fromCharCode(pending[0] as number) : '';
      const parts = pending
        .subarray(head + 4, length)
        .toString('utf8')
        .split('\0');
      if (type === 'Q') found(parts[0] ?? '');
      if (type === 'P') found(parts[1] ?? '');
      pending = pending.subarray(length);
      hasBegun = true;
    }
  };
}
