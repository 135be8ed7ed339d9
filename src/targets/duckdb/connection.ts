/** One connection to a DuckDB file, open for one transaction. The driver works in threads of its own. */
import { stat } from 'node:fs/promises';
import type * as Driver from '@duckdb/node-api';
import type { DuckDBConnection, DuckDBInstance, DuckDBValue } from '@duckdb/node-api';
import { TargetDeclarationError } from '../target-error.js';
import { StoreFault, type Value } from '../tables/store/store.js';

export type Rows = readonly Readonly<Record<string, unknown>>[];

export interface Connection {
  /** @throws StoreFault */
  query(text: string, values?: readonly Value[]): Promise<Rows>;
  close(): void;
}

/** @throws StoreFault; the driver would create a file that is not there. */
export async function connect(file: string): Promise<Connection> {
  await stat(file).catch((error: unknown) => {
    throw new StoreFault('unavailable', (error as NodeJS.ErrnoException).code ?? 'CANNOT_OPEN');
  });
  const driver = await loadDriver();
  return asFault(async () => {
    // Within one process a file is opened once: two instances would not see each other's locks.
    const instance = await driver.DuckDBInstance.fromCache(file);
    try {
      return new FileConnection(driver, instance, await instance.connect());
    } catch (error) {
      instance.closeSync();
      throw error;
    }
  });
}

/** It is an optional peer: whoever only declares the target needs none. */
async function loadDriver(): Promise<typeof Driver> {
  try {
    return await import('@duckdb/node-api');
  } catch {
    throw new TargetDeclarationError('duckdb() needs its driver, which is not installed: npm i @duckdb/node-api.', {
      target: 'duckdb',
      cause: 'NO_DRIVER',
    });
  }
}

class FileConnection implements Connection {
  readonly #driver: typeof Driver;
  readonly #instance: DuckDBInstance;
  readonly #connection: DuckDBConnection;

  constructor(driver: typeof Driver, instance: DuckDBInstance, connection: DuckDBConnection) {
    this.#driver = driver;
    this.#instance = instance;
    this.#connection = connection;
  }

  query(text: string, values: readonly Value[] = []): Promise<Rows> {
    return asFault(async () => {
      const { LIST, listValue, VARCHAR } = this.#driver;
      const result = await this.#connection.runAndReadAll(
        text,
        values.map((value): DuckDBValue => (isList(value) ? listValue(value) : value)),
        values.map((value) => (isList(value) ? LIST(VARCHAR) : undefined)) as never,
      );
      return result.getRowObjects();
    });
  }

  close(): void {
    this.#connection.closeSync();
    this.#instance.closeSync();
  }
}

function isList(value: Value): value is readonly (string | null)[] {
  return Array.isArray(value);
}

async function asFault<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof StoreFault ? error : faultOf(error);
  }
}

/** DuckDB's error types, which its API gives as the first words of the message and nowhere else. */
const kinds: Readonly<Record<string, StoreFault['kind']>> = {
  IO: 'unavailable', // the file is locked by another process, or its disk is away
  Connection: 'unavailable',
  Interrupt: 'unavailable',
  'Out of Memory': 'unavailable',
  Transaction: 'unavailable', // a conflict with another transaction
  TransactionContext: 'unavailable',
  Catalog: 'declaration',
  Binder: 'declaration',
  Constraint: 'subject',
  Conversion: 'subject',
  'Out of Range': 'subject',
};

function faultOf(error: unknown): StoreFault {
  const type = /^([A-Z][A-Za-z ]{1,30}) Error:/.exec(error instanceof Error ? error.message : '')?.[1];
  if (type === undefined) return new StoreFault('failed', 'UNKNOWN');
  return new StoreFault(kinds[type] ?? 'failed', type.toUpperCase().replaceAll(' ', '_'));
}
