import pg from 'pg';

/** Runs one statement on the server at `url`; null where it cannot be reached or does not let us in within 5 s. */
export async function ask(url: string, statement: string): Promise<Record<string, unknown> | null> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000, query_timeout: 5_000 });
  // The server may end the connection at any moment; the calls below see that too.
  client.on('error', () => undefined);
  try {
    await client.connect();
    const result = await client.query<Record<string, unknown>>(statement);
    return result.rows[0] ?? null;
  } catch {
    return null;
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** Whether a PostgreSQL server at `url` answers a query. */
export async function answers(url: string): Promise<boolean> {
  return (await ask(url, 'SELECT 1 AS one')) !== null;
}
