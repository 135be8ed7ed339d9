/** Who leads lives: this process, with the sources, or a process of its own, with the built package. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Client } from '../../src/client/client.js';
import { defineConfig } from '../../src/config/define-config.js';
import { parseKeyRing } from '../../src/keys/key-ring.js';
import { openPostgres } from '../../src/storage/postgres/postgres-database.js';
import { files } from '../../src/targets/files/index.js';
import { postgres } from '../../src/targets/postgres/index.js';
import type { Worker } from './interruptions.js';
import { type Begun, live, openClient, type Way } from './lives.mjs';
import { readableLog } from './record.js';

const product = { Client, defineConfig, parseKeyRing, openPostgres, files, postgres };

/** In this process. It cannot be killed. */
export const here: Worker = {
  async lead(way, begun) {
    const { log, lines } = readableLog();
    const client = openClient(product, way, log);
    try {
      await live(client, begun);
    } catch (error) {
      return `${JSON.stringify(lines)}${String(error)}`;
    } finally {
      await client.close();
    }
    return JSON.stringify(lines);
  },
  kill() {
    throw new Error('This process goes on.');
  },
};

const path = fileURLToPath(new URL('./life-child.mjs', import.meta.url));

/** A process that waits for its first life. */
export class Child implements Worker {
  readonly #process: ChildProcess;
  readonly #ready: Promise<unknown>;
  #said = '';
  #heard: ((answer: unknown) => void) | null = null;

  constructor() {
    this.#process = fork(path, { stdio: ['ignore', 'inherit', 'pipe', 'ipc'], serialization: 'json' });
    this.#process.stderr?.on('data', (chunk: Buffer) => {
      this.#said += chunk.toString();
    });
    this.#ready = once(this.#process, 'message');
    // What it says of its life, or that it is gone.
    this.#process.on('message', (answer) => this.#heard?.(answer));
    this.#process.on('close', () => this.#heard?.(null));
  }

  async lead(way: Way, begun: Begun): Promise<string> {
    await this.#ready;
    this.#said = '';
    const ended = new Promise<unknown>((resolve) => {
      this.#heard = resolve;
    });
    this.#process.send({ way, begun });
    return JSON.stringify(await ended) + this.#said;
  }

  kill(): void {
    this.#process.kill('SIGKILL');
  }

  async close(): Promise<void> {
    if (this.#process.exitCode === null && this.#process.signalCode === null) {
      const closed = once(this.#process, 'close');
      this.kill();
      await closed;
    }
  }
}
