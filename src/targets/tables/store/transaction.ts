import { refuseAborted, type Session } from './store.js';

/** Runs `work` in a transaction, which is committed unless it throws or the signal was aborted. */
export async function inTransaction<T>(
  connection: Session,
  begin: string,
  signal: AbortSignal,
  work: (session: Session) => Promise<T>,
): Promise<T> {
  refuseAborted(signal);
  await connection.query(begin, []);
  try {
    const result = await work({
      query: (text, values) => {
        refuseAborted(signal);
        return connection.query(text, values);
      },
    });
    refuseAborted(signal);
    await connection.query('COMMIT', []);
    return result;
  } catch (fault) {
    await connection.query('ROLLBACK', []).catch(() => undefined);
    throw fault;
  }
}
