/** Which optional drivers are installed: the demo shows the stores that they open. */
import { createRequire } from 'node:module';

export interface Drivers {
  readonly duckdb: boolean;
  readonly sqlite: boolean;
}

const packages: Readonly<Record<keyof Drivers, { readonly name: string; readonly store: string }>> = {
  duckdb: { name: '@duckdb/node-api', store: 'the analytical store (DuckDB)' },
  sqlite: { name: 'libsql', store: 'the search store (SQLite FTS5)' },
};

export function findDrivers(): Drivers {
  return { duckdb: isInstalled(packages.duckdb.name), sqlite: isInstalled(packages.sqlite.name) };
}

function isInstalled(name: string): boolean {
  try {
    createRequire(import.meta.url).resolve(name);
    return true;
  } catch {
    return false;
  }
}

/** The shop's stores, for people. */
export function storesOf({ duckdb, sqlite }: Drivers): string {
  const optional = [...(duckdb ? ['page views in DuckDB'] : []), ...(sqlite ? ['a search index in SQLite'] : [])];
  return ['an embedded PostgreSQL', ...optional, 'exports and invoices in a file tree'].join(', ');
}

/** What brings the stores that are not shown. */
export function missingDrivers(drivers: Drivers): readonly string[] {
  return (['duckdb', 'sqlite'] as const)
    .filter((driver) => !drivers[driver])
    .map((driver) => `  ${packages[driver].store} is not shown: npm i ${packages[driver].name}`);
}
