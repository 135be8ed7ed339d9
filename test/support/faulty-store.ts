/** Connections to a store in a file that can be made to fail, as by a lock or a lost disk, or to change nothing. */
import type { FaultKind, Undo } from '../../src/testing/harness.js';
import { StoreFault, type Value } from '../../src/targets/tables/store/store.js';

interface Queries {
  query(text: string, values?: readonly Value[]): Promise<readonly Readonly<Record<string, unknown>>[]>;
}

export class FaultyStore {
  #fault: FaultKind | null = null;
  #statements = 0;
  #undone: Promise<void> = Promise.resolve();

  /** A connector that fails as it is told to. */
  wrap<C extends Queries & { close(): unknown }>(connect: (file: string) => Promise<C>): (file: string) => Promise<C> {
    return async (file) => {
      const connection = await connect(file);
      return {
        query: async (text: string, values?: readonly Value[]) => {
          await this.#hurdle(text);
          if (this.#fault === 'silent' && /^(DELETE|UPDATE)/.test(text)) return [];
          return connection.query(text, values);
        },
        close: () => connection.close(),
      } as C;
    };
  }

  break(kind: 'slow' | 'half' | 'silent'): Undo {
    let end = (): void => undefined;
    this.#fault = kind;
    this.#undone = new Promise((resolve) => {
      end = resolve;
    });
    return async () => {
      this.#fault = null;
      end();
    };
  }

  /** Of each three beginnings and ends of transactions one fails, so that half of the calls do. */
  async #hurdle(text: string): Promise<void> {
    if (this.#fault === 'slow') await this.#undone;
    if (this.#fault !== 'half' || !/^(BEGIN|COMMIT)/.test(text)) return;
    this.#statements += 1;
    if (this.#statements % 3 === 0) throw new StoreFault('unavailable', 'HALF');
  }
}
