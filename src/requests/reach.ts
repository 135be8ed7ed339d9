/** Whether the record can be reached at all. */
import { sql } from 'kysely';
import type { Queries } from '../storage/database.js';

/** @throws DatabaseUnavailableError where it cannot. */
export async function reach({ db }: Queries): Promise<void> {
  await sql`SELECT 1`.execute(db);
}
