/** Which faults mean that the server cannot be reached: told by code, never by text. */

const socketFaults = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ENOENT',
]);

/** Shutdown, crash, starting up, too many connections. Class 08 is added below. */
const serverFaults = new Set(['57P01', '57P02', '57P03', '53300']);

interface Coded {
  readonly code?: unknown;
  readonly severity?: unknown;
}

/**
 * Whether `error`, as the `pg` driver gives it, says that the connection is lost or cannot be made. The driver's own
 * time-outs and "connection terminated" carry no code at all; a fault without SQLSTATE is therefore one of the connection.
 */
export function isConnectionFault(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error instanceof AggregateError) return error.errors.every(isConnectionFault);
  const { code, severity } = error as Coded;
  if (typeof code !== 'string') return severity === undefined && error.constructor === Error;
  return socketFaults.has(code) || serverFaults.has(code) || code.startsWith('08');
}

/** The code to print for it: never the driver's message, which may hold values. */
export function faultCode(error: unknown): string {
  if (error instanceof AggregateError) return faultCode(error.errors[0]);
  const code = (error as Coded | null)?.code;
  return typeof code === 'string' ? code : 'NO_ANSWER';
}
