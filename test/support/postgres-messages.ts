/** PostgreSQL's protocol, as far as statements go: a stream of bytes taken apart into messages. */

export interface Message {
  /** One letter; empty for the first message of a client, which has none. */
  readonly type: string;
  readonly bytes: Buffer;
}

/**
 * A message is a type, a length that includes itself, and a body; the first one of a client comes without a type. Source:
 * PostgreSQL, "Message Formats".
 */
export class MessageReader {
  #pending = Buffer.alloc(0);
  #hasType: boolean;

  /** @param side - whose messages these are; a server's are read from the beginning of any of them. */
  constructor(side: 'client' | 'server') {
    this.#hasType = side === 'server';
  }

  /** The messages that are complete with this chunk. */
  *read(chunk: Buffer): Generator<Message> {
    this.#pending = this.#pending.length === 0 ? Buffer.from(chunk) : Buffer.concat([this.#pending, chunk]);
    for (;;) {
      const head = this.#hasType ? 1 : 0;
      if (this.#pending.length < head + 4) return;
      const length = head + this.#pending.readInt32BE(head);
      if (this.#pending.length < length) return;
      const bytes = this.#pending.subarray(0, length);
      this.#pending = this.#pending.subarray(length);
      const type = this.#hasType ? String.fromCharCode(bytes[0] as number) : '';
      this.#hasType = true;
      yield { type, bytes };
    }
  }
}

/**
 * The texts of the statements that one client sends. `Q` is a simple query, `P` the parse of an extended one, and `B` binds what
 * was parsed: a statement that is kept prepared by its name is parsed once, and later only bound.
 */
export class StatementTexts {
  readonly #named = new Map<string, string>();
  /** Parsed a moment ago: what binds it now is the same statement. */
  #parsed: string | null = null;

  /** The text of the statement that a message begins; null for one that begins none. */
  of({ type, bytes }: Message): string | null {
    const fields = (): readonly string[] => bytes.subarray(5).toString('utf8').split('\0', 2);
    switch (type) {
      case 'Q':
        return fields()[0] ?? '';
      case 'P': {
        const [name = '', text = ''] = fields();
        if (name !== '') this.#named.set(name, text);
        this.#parsed = name;
        return text;
      }
      case 'B': {
        const name = fields()[1] ?? '';
        const isParsed = this.#parsed === name;
        this.#parsed = null;
        return isParsed ? null : (this.#named.get(name) ?? '');
      }
      default:
        return null;
    }
  }
}

/** The database that a client's first message asks for: names and values in turn, after the length and the protocol's version. */
export function databaseOf({ bytes }: Message): string {
  const fields = bytes.subarray(8).toString('utf8').split('\0');
  return fields[fields.indexOf('database') + 1] ?? '';
}
