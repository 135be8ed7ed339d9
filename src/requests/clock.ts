import { sql } from 'kysely';
import type { Queries } from '../storage/database.js';

/** The database's clock: the only one that decides anything, or stands in a receipt. */
export async function readClock({ db }: Queries): Promise<Date> {
  const { rows } = await sql<{ now: Date }>`SELECT clock_timestamp() AS now`.execute(db);
  return (rows[0] as { now: Date }).now;
}
