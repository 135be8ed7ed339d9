/** The demo's analytical store: page views in a DuckDB file. */
import { join } from 'node:path';

export const ANALYTICAL_FILE = 'warehouse.duckdb';
const VIEWS_EACH = 50;

export async function buildAnalytical(directory: string, customers: number): Promise<void> {
  const { DuckDBInstance } = await import('@duckdb/node-api');
  const instance = await DuckDBInstance.create(join(directory, ANALYTICAL_FILE));
  const connection = await instance.connect();
  try {
    await connection.run(
      `CREATE TABLE page_view AS
         SELECT 1 + i % ${customers} AS customer_id, '/article/' || i AS page FROM range(${customers * VIEWS_EACH}) AS views (i)`,
    );
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}
