/**
 * Faults of a server, with what may be told of them and no more: SQLSTATE, constraint and table. The driver's own error
 * holds values of rows in its message and detail, so that it goes no further than `connection.ts` (contract WF-2).
 */
import {
  TargetBlockedError,
  TargetDeclarationError,
  TargetError,
  type TargetErrorDetail,
  TargetFailedError,
  TargetUnavailableError,
} from '../target-error.js';

/** The server answered a statement with an error. */
export class ServerRefusal extends Error {
  readonly sqlstate: string;
  readonly constraint: string | undefined;
  readonly table: string | undefined;
  /** The place that the statement was for. */
  readonly place: string | undefined;

  constructor(fields: { sqlstate: string; constraint?: string; table?: string; place?: string }) {
    super(`SQLSTATE ${fields.sqlstate}`);
    this.sqlstate = fields.sqlstate;
    this.constraint = fields.constraint;
    this.table = fields.table;
    this.place = fields.place;
  }
}

/** No answer: no connection, a lost one, silence beyond the limit, or an abort. */
export class NoAnswer extends Error {
  /** An errno name, `NO_ANSWER` or `ABORTED`. */
  readonly reason: string;

  constructor(reason: string) {
    super(reason);
    this.reason = reason;
  }
}

/** What names in a server's answer are known to be names: a trigger can raise an error with any text in their place. */
export interface KnownNames {
  readonly constraints: ReadonlySet<string>;
  readonly tables: ReadonlySet<string>;
}

/** What becomes of a fault. A `TargetError` stays as it is, and so does a mistake of our own. */
export function asTargetError(fault: unknown, target: string, known: KnownNames | null): unknown {
  if (fault instanceof TargetError) return fault;
  if (fault instanceof NoAnswer) {
    const text =
      fault.reason === 'ABORTED'
        ? 'was interrupted'
        : `does not answer (${fault.reason}): it is tried again by itself; check that the server runs and can be reached`;
    return new TargetUnavailableError(`Target "${target}" ${text}.`, { target, cause: fault.reason });
  }
  return fault instanceof ServerRefusal ? refused(fault, target, known) : fault;
}

function refused(refusal: ServerRefusal, target: string, known: KnownNames | null): TargetError {
  const { sqlstate, place } = refusal;
  const constraint = known?.constraints.has(refusal.constraint ?? '') ? refusal.constraint : undefined;
  const table = known?.tables.has(refusal.table ?? '') ? refusal.table : undefined;
  const detail: TargetErrorDetail = {
    target,
    cause: sqlstate,
    ...(place === undefined ? {} : { place }),
    ...(constraint === undefined ? {} : { constraint }),
  };
  const where = place === undefined ? `Target "${target}"` : `Target "${target}", place "${place}"`;
  const what = `SQLSTATE ${sqlstate}${constraint ? `, constraint ${constraint}` : ''}${table ? `, table ${table}` : ''}`;
  switch (consequenceOf(sqlstate)) {
    case 'wait':
      return new TargetUnavailableError(
        `${where}: the server cannot do it now (${what}); it is tried again by itself.`,
        detail,
      );
    case 'declaration':
      return new TargetDeclarationError(
        `${where}: the database no longer fits the declaration (${what}); compare the declared tables and columns with it.`,
        detail,
      );
    case 'blocked':
      return new TargetBlockedError(
        `${where}: the server refused (${what}); trying again cannot help, so look into it.`,
        detail,
      );
    case 'failed':
      return new TargetFailedError(`${where}: the server refused (${what}); ${adviceOn(sqlstate)}.`, detail);
  }
}

/** A rule without RETURNING makes the server refuse any statement that has to see what it did: feature_not_supported. */
function adviceOn(sqlstate: string): string {
  return sqlstate === '0A000'
    ? 'remove the rule (CREATE RULE) that stands on the table; it is tried again by itself'
    : 'it is tried again by itself, and blocked when that does not help';
}

type Consequence = 'wait' | 'declaration' | 'blocked' | 'failed';

/** By SQLSTATE, or by its class of two characters. https://www.postgresql.org/docs/current/errcodes-appendix.html */
const consequences: Readonly<Record<string, Consequence>> = {
  '08': 'wait', // connection exception
  '25006': 'wait', // read-only transaction: a standby, while it fails over
  '25P03': 'wait', // idle in transaction for too long
  '40': 'wait', // deadlock, serialization
  '53': 'wait', // too many connections, disk full, out of memory
  '55006': 'wait', // object in use
  '55P03': 'wait', // lock not available
  '57': 'wait', // canceled by a time-out, shutdown, starting up
  '58': 'wait', // the system below the server
  '3F000': 'declaration', // schema
  '42703': 'declaration', // column
  '42704': 'declaration', // type
  '42804': 'declaration', // type of a value
  '42809': 'declaration', // kind of relation
  '42883': 'declaration', // operator
  '42P01': 'declaration', // table
  '22': 'blocked', // a value that the column does not take
  '23502': 'blocked', // NOT NULL
  '23505': 'blocked', // unique
  '23514': 'blocked', // CHECK
  '23P01': 'blocked', // exclusion
  '28': 'blocked', // who we are
  '3D': 'blocked', // no such database
  '42501': 'blocked', // permission
};

function consequenceOf(sqlstate: string): Consequence {
  return consequences[sqlstate] ?? consequences[sqlstate.slice(0, 2)] ?? 'failed';
}

/** Whether another subject of the same statement may be free of the fault: a constraint, a trigger or a value. */
export function mayBeOneSubjects(fault: unknown): fault is ServerRefusal {
  return fault instanceof ServerRefusal && ['21', '22', '23', '27', '44', 'P0'].includes(fault.sqlstate.slice(0, 2));
}

/** Whether the transaction lost against another one and can simply be run again. */
export function lostARace(fault: unknown): boolean {
  return fault instanceof ServerRefusal && (fault.sqlstate === '40P01' || fault.sqlstate === '40001');
}
