/**
 * Names for statements that a session keeps prepared, so that they are planned once and not each time: planning takes longer
 * than a statement of one row does.
 *
 * A prepared statement is state of a session, and a connection pooler hands sessions on to others. A session is known to be
 * the program's own where the server's process is the one that greeted it: a pooler greets with a number of its own.
 */

/** Whether the connection goes to the process that it was introduced to. */
export function isOwnSession(greeted: unknown, answered: unknown): boolean {
  return typeof greeted === 'number' && greeted === answered;
}

/** The program's statements are fewer; what is made up at run time is not kept for ever. */
const MOST_NAMES = 500;

const names = new Map<string, string>();

/** The same name for the same text; undefined where there are too many texts already. */
export function nameOfStatement(sql: string): string | undefined {
  const known = names.get(sql);
  if (known !== undefined || names.size >= MOST_NAMES) return known;
  const name = `expunge_${names.size + 1}`;
  names.set(sql, name);
  return name;
}
