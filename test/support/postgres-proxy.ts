/**
 * A TCP proxy in front of PostgreSQL. It reads the client's side of the protocol, so that a test knows every statement that
 * passes, where the server is and not in our code; makes the server unreachable, silent or unreliable; and interrupts
 * whoever is on the other side at exactly one statement.
 */
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { databaseOf, MessageReader, StatementTexts } from './postgres-messages.js';

/**
 * - `down`: connections are cut, and new ones too.
 * - `slow`: connections are accepted, and nothing is passed on until it ends.
 * - `half`: every second statement that `halves` names is cut off.
 */
export type ProxyFault = 'none' | 'down' | 'slow' | 'half';

/**
 * What becomes of one statement:
 * - `stop`: it is not passed on, and nothing after it; whoever sent it is to be killed.
 * - `gone`: it is not passed on, and every connection is cut, new ones too, until the fault is set to `none`.
 * - `lose`: it is passed on and carried out, and its connection is cut before the answer.
 * - `cut`: its connection is cut, and it is not passed on.
 * - `hang`: it is not passed on, and never answered.
 */
export type Interruption = 'stop' | 'gone' | 'lose' | 'cut' | 'hang';

export interface Statement {
  readonly text: string;
  /** Counted from 1, in the order in which connections were made. */
  readonly connection: number;
  readonly database: string;
}

/** One statement that is to be interrupted. */
export interface Trap {
  /** The statement that it was; null until it came. */
  readonly met: Statement | null;
  /** Resolves when it has come. */
  readonly sprung: Promise<void>;
}

export interface PostgresProxy {
  /** The given URL with the proxy's host and port. */
  readonly url: string;
  /** Another URL of the same server, through the proxy. */
  through(url: string): string;
  /** Every statement, in the order in which they came; to be emptied at will. */
  readonly statements: Statement[];
  set(fault: ProxyFault): void;
  /** Interrupts the statement with this number, counted from now and from 1. One trap at a time. */
  interrupt(number: number, how: Interruption): Trap;
  close(): Promise<void>;
}

export interface ProxyOptions {
  /** Which statements `half` means; all by default. */
  readonly halves?: (text: string) => boolean;
}

/** @param url - where the server is. */
export async function startPostgresProxy(url: string, options: ProxyOptions = {}): Promise<PostgresProxy> {
  const proxy = new Proxy(url, options);
  await proxy.listen();
  return proxy;
}

class Proxy implements PostgresProxy {
  readonly statements: Statement[] = [];
  readonly #to: URL;
  readonly #halves: (text: string) => boolean;
  readonly #server: Server;
  readonly #open = new Set<Connection>();
  readonly #held: (() => void)[] = [];
  #fault: ProxyFault = 'none';
  #halved = 0;
  #connections = 0;
  #trap: { number: number; readonly how: Interruption; readonly spring: (statement: Statement) => void } | null = null;

  constructor(url: string, { halves = () => true }: ProxyOptions) {
    this.#to = new URL(url);
    this.#halves = halves;
    this.#server = createServer((client) => this.#accept(client));
  }

  get url(): string {
    return this.through(this.#to.href);
  }

  through(url: string): string {
    const through = new URL(url);
    through.hostname = '127.0.0.1';
    through.port = String((this.#server.address() as AddressInfo).port);
    return through.href;
  }

  listen(): Promise<void> {
    return new Promise((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
  }

  set(fault: ProxyFault): void {
    this.#fault = fault;
    if (fault === 'down') this.#cutAll();
    if (fault === 'none') for (const release of this.#held.splice(0)) release();
  }

  interrupt(number: number, how: Interruption): Trap {
    let met: Statement | null = null;
    const sprung = new Promise<void>((resolve) => {
      const spring = (statement: Statement): void => {
        met = statement;
        resolve();
      };
      this.#trap = { number, how, spring };
    });
    return {
      get met() {
        return met;
      },
      sprung,
    };
  }

  close(): Promise<void> {
    this.#cutAll();
    return new Promise((resolve) => this.#server.close(() => resolve()));
  }

  #cutAll(): void {
    for (const connection of this.#open) connection.cut();
  }

  #accept(client: Socket): void {
    if (this.#fault === 'down') {
      client.on('error', () => undefined);
      client.destroy();
      return;
    }
    this.#connections += 1;
    const number = this.#connections;
    const connection = new Connection(client, connect(Number(this.#to.port || 5432), this.#to.hostname), {
      statement: (text, database) => this.#meet({ text, connection: number, database }),
      pass: (step) => {
        if (this.#fault === 'slow') this.#held.push(step);
        else step();
      },
      closed: () => this.#open.delete(connection),
    });
    this.#open.add(connection);
  }

  #meet(statement: Statement): Interruption | null {
    this.statements.push(statement);
    if (this.#fault === 'half' && this.#halves(statement.text) && (this.#halved += 1) % 2 === 0) return 'cut';
    const trap = this.#trap;
    if (trap === null || (trap.number -= 1) > 0) return null;
    this.#trap = null;
    trap.spring(statement);
    if (trap.how === 'gone') this.set('down');
    return trap.how;
  }
}

interface Rules {
  /** Asked when a statement begins. */
  statement(text: string, database: string): Interruption | null;
  /** Passes a step on, now or later. */
  pass(step: () => void): void;
  closed(): void;
}

/** One client's connection, and the one to the server that belongs to it. */
class Connection {
  readonly #client: Socket;
  readonly #upstream: Socket;
  readonly #rules: Rules;
  readonly #sent = new MessageReader('client');
  readonly #texts = new StatementTexts();
  /** Reads the answer to a statement whose answer is lost; null otherwise. */
  #lost: MessageReader | null = null;
  /** Nothing that the client sends is passed on any more. */
  #isSilent = false;
  #database = '';

  constructor(client: Socket, upstream: Socket, rules: Rules) {
    this.#client = client;
    this.#upstream = upstream;
    this.#rules = rules;
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      // A statement is several messages, each passed on by itself: none may wait for the answer to another.
      socket.setNoDelay(true);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        other.destroy();
        rules.closed();
      });
    }
    client.on('data', (chunk: Buffer) => rules.pass(() => this.#fromClient(chunk)));
    upstream.on('data', (chunk: Buffer) => rules.pass(() => this.#fromServer(chunk)));
  }

  cut(): void {
    this.#client.destroy();
    this.#upstream.destroy();
  }

  #fromClient(chunk: Buffer): void {
    this.#upstream.cork();
    this.#passOn(chunk);
    this.#upstream.uncork();
  }

  #passOn(chunk: Buffer): void {
    for (const message of this.#sent.read(chunk)) {
      if (this.#isSilent || this.#client.destroyed) return;
      if (message.type === '') this.#database = databaseOf(message);
      const text = this.#texts.of(message);
      const interruption = text === null ? null : this.#rules.statement(text, this.#database);
      if (interruption === 'cut' || interruption === 'gone') this.cut();
      if (interruption === 'stop' || interruption === 'hang') this.#isSilent = true;
      if (interruption === 'lose') this.#lost = new MessageReader('server');
      if (interruption === null || interruption === 'lose') this.#upstream.write(message.bytes);
    }
  }

  #fromServer(chunk: Buffer): void {
    if (this.#lost === null) {
      this.#client.write(chunk);
      return;
    }
    // ReadyForQuery: the statement, or the whole group of an extended one, is over for the server.
    for (const { type } of this.#lost.read(chunk)) if (type === 'Z') this.cut();
  }
}
