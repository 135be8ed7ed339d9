/** The demo's search store: an FTS5 index in a SQLite file. */
import { join } from 'node:path';

export const SEARCH_FILE = 'search.db';

export async function buildSearch(directory: string, customers: number): Promise<void> {
  const { default: Database } = await import('libsql');
  const database = new Database(join(directory, SEARCH_FILE));
  try {
    database.exec(
      `CREATE VIRTUAL TABLE customer_search USING fts5(customer_id UNINDEXED, name, email);
       WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < ${customers})
       INSERT INTO customer_search SELECT i, 'Customer ' || i, 'customer-' || i || '@shop.example' FROM numbers;`,
    );
  } finally {
    database.close();
  }
}
