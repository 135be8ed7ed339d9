/** A TCP proxy in front of a real server, with which a test makes it unreachable, silent or unreliable. */
import { createServer, connect, type AddressInfo, type Server, type Socket } from 'node:net';

/**
 * - `down`: connections are cut, and new ones too.
 * - `slow`: connections are accepted, and nothing is passed on until it ends.
 * - `half`: every other connection's next unit of work is cut off, as `cuts` tells it.
 */
export type ProxyFault = 'none' | 'down' | 'slow' | 'half';

export interface FaultyProxy {
  /** The given URL with the proxy's host and port. */
  readonly url: string;
  set(fault: ProxyFault): void;
  close(): Promise<void>;
}

/**
 * @param url - where the server is.
 * @param cuts - whether what the client sends begins a unit of work; every second of them is cut off under `half`.
 */
export async function startFaultyProxy(url: string, cuts: (sent: Buffer) => boolean): Promise<FaultyProxy> {
  const to = new URL(url);
  const open = new Set<Socket>();
  const held: (() => void)[] = [];
  let fault: ProxyFault = 'none';
  let units = 0;

  const server: Server = createServer((client) => {
    open.add(client);
    client.on('close', () => open.delete(client));
    client.on('error', () => undefined);
    if (fault === 'down') {
      client.destroy();
      return;
    }
    const upstream = connect(Number(to.port || 5432), to.hostname);
    open.add(upstream);
    upstream.on('close', () => {
      open.delete(upstream);
      client.destroy();
    });
    upstream.on('error', () => client.destroy());
    client.on('close', () => upstream.destroy());
    const pass = (from: Socket, into: Socket, chunk: Buffer): void => {
      if (fault === 'slow') held.push(() => into.write(chunk));
      else if (fault === 'half' && from === client && cuts(chunk) && (units += 1) % 2 === 0) client.destroy();
      else into.write(chunk);
    };
    client.on('data', (chunk: Buffer) => pass(client, upstream, chunk));
    upstream.on('data', (chunk: Buffer) => pass(upstream, client, chunk));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const through = new URL(url);
  through.hostname = '127.0.0.1';
  through.port = String((server.address() as AddressInfo).port);
  return {
    url: through.href,
    set(next) {
      fault = next;
      if (next === 'down') for (const socket of open) socket.destroy();
      if (next === 'none') for (const release of held.splice(0)) release();
    },
    close() {
      for (const socket of open) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}
