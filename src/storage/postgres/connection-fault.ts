/** What the server and the system say about a connection: told by code, never by text. */

/**
 * SQLSTATEs with which the server takes its leave: shut down, crashed, starting or stopping, database dropped, session or
 * transaction idle for too long, transaction too long. Class 08 (connection exception) is added below.
 * Source: PostgreSQL, appendix A, "PostgreSQL Error Codes".
 */
const farewells = new Set(['57P01', '57P02', '57P03', '57P04', '57P05', '25P03', '25P04']);

/** Whether `error`, an answer of the server to a statement, says that the connection is over. */
export function endsConnection(error: unknown): boolean {
  const code = codeOf(error);
  return code !== undefined && (farewells.has(code) || /^08[0-9A-Z]{3}$/.test(code) || isOutdated(error, code));
}

/**
 * A prepared statement from before a column was added: the connection that keeps it can answer it no more. Its code says only
 * that a feature is not supported, so that the routine is looked at, too.
 */
function isOutdated(error: unknown, code: string): boolean {
  return code === '0A000' && (error as { routine?: unknown }).routine === 'RevalidateCachedQuery';
}

/**
 * The code of a fault, for a message: an SQLSTATE, or the errno name of the socket. Undefined where there is none: the
 * driver's own words ("Connection terminated unexpectedly", "timeout expired") come without.
 */
export function codeOf(error: unknown): string | undefined {
  // Where a host has several addresses: one fault for each of them.
  if (error instanceof AggregateError) return codeOf(error.errors[0]);
  const code = (error as { code?: unknown } | null | undefined)?.code;
  return typeof code === 'string' ? code : undefined;
}
