/** A record for tests: a migrated database of its own, requests planted in it, and a workflow that no product has. */
import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import { v7 as uuidv7 } from 'uuid';
import type { Handler, Policy, Workflow } from '../../src/engine/workflow.js';
import { createLog, type Log } from '../../src/observe/log.js';
import { submit } from '../../src/requests/submit.js';
import { type Database, TABLES } from '../../src/storage/database.js';
import type { JsonObject } from '../../src/storage/json.js';
import { migrate } from '../../src/storage/migrations/migrate.js';
import { openPGlite } from '../../src/storage/pglite/pglite-database.js';
import { openPostgres } from '../../src/storage/postgres/postgres-database.js';
import { createTestDatabase } from './postgres.js';

export interface TestRecord {
  readonly database: Database;
  /** The text of every statement that was sent; to be emptied at will. */
  readonly statements: string[];
  /** Of a server; null where the database is embedded. */
  readonly url: string | null;
  close(): Promise<void>;
}

/** On a real server, in a database that `close` drops. */
export async function openServerRecord(): Promise<TestRecord & { readonly url: string }> {
  const created = await createTestDatabase();
  const { url } = created;
  const statements: string[] = [];
  const database = openPostgres({ url, onStatement: (text) => statements.push(text) });
  await migrate(database);
  return {
    database,
    statements,
    url,
    async close() {
      await database.close();
      await created.drop();
    },
  };
}

/** Embedded, in memory. */
export async function openEmbeddedRecord(): Promise<TestRecord> {
  const statements: string[] = [];
  const database = openPGlite({ onStatement: (text) => statements.push(text) });
  await migrate(database);
  return { database, statements, url: null, close: () => database.close() };
}

/** Every row of every table but the event log, as text, with the transaction that wrote it last. */
export async function dump({ db, t }: Database): Promise<Readonly<Record<string, readonly string[]>>> {
  const tables = (Object.keys(TABLES) as (keyof typeof TABLES)[]).filter((key) => key !== 'events');
  const dumped = await Promise.all(
    tables.map(async (key) => {
      const { rows } = await sql<{ row: string }>`
        SELECT r.xmin::text || ' ' || to_jsonb(r)::text AS row FROM ${t[key]} r ORDER BY 1`.execute(db);
      return [key, rows.map(({ row }) => row)] as const;
    }),
  );
  return Object.fromEntries(dumped);
}

/** Makes a lease run out, as the clock would: its owner may be alive and not know. */
export async function expireLease({ db, t }: Database, requestId: string): Promise<void> {
  await sql`UPDATE ${t.requests} SET lease_expires_at = clock_timestamp() - interval '1 ms' WHERE id = ${requestId}::uuid`.execute(
    db,
  );
}

/** Makes the time come for which a request waits. */
export async function makeDue({ db, t }: Database, requestId: string): Promise<void> {
  await sql`UPDATE ${t.requests} SET next_attempt_at = clock_timestamp() - interval '1 ms' WHERE id = ${requestId}::uuid`.execute(
    db,
  );
}

export interface LogLine extends Readonly<Record<string, unknown>> {
  readonly event: string;
}

/** A log whose lines can be read. */
export function readableLog(): { readonly log: Log; readonly lines: readonly LogLine[] } {
  const lines: LogLine[] = [];
  const log = createLog({
    level: 'debug',
    destination: { write: (line: string) => void lines.push(JSON.parse(line) as LogLine) },
  });
  return { log, lines };
}

export interface MadeUp {
  readonly name?: string;
  readonly version?: number;
  /** Stage and place, one after the other. */
  readonly steps?: readonly (readonly [stage: string, place: string | null])[];
  /** By stage; others complete with an empty result. */
  readonly handlers?: Readonly<Record<string, Handler>>;
  readonly visits?: readonly string[];
  readonly decide?: Policy['decide'];
  readonly end?: NonNullable<Workflow['end']>;
}

/** What a handler has to say of all of its runs. */
export const completeAll: Handler = async (runs) => ({
  outcomes: new Map(runs.map(({ request }) => [request.id, { kind: 'completed' as const, result: {} }])),
});

/** A workflow of made-up stages, one after the other: the store and the engine have never heard of them (EX-23). */
export function madeUp(options: MadeUp = {}): Workflow {
  const steps = options.steps ?? [
    ['knead', null],
    ['bake', 'oven'],
  ];
  const stages = [...new Set(steps.map(([stage]) => stage))];
  return {
    name: options.name ?? 'made-up',
    version: options.version ?? 1,
    runBy: 'worker',
    visits: new Set(options.visits),
    handlers: Object.fromEntries(stages.map((stage) => [stage, options.handlers?.[stage] ?? completeAll])),
    policy: {
      decide: options.decide ?? ((input) => stepAfter(input, steps)),
      check: () => undefined,
      mayCancel: () => true,
    },
    digest: (_request, inventory) => madeUpDigest(inventory),
    ...(options.end === undefined ? {} : { end: options.end }),
  };
}

function stepAfter({ history, isCancelled }: Parameters<Policy['decide']>[0], steps: NonNullable<MadeUp['steps']>) {
  if (isCancelled || history.at(-1)?.result?.['cancelled'] === true) {
    return { kind: 'end', status: 'cancelled', transition: { decision: 'cancelled' } } as const;
  }
  const step = steps[history.length];
  if (step === undefined) return { kind: 'end', status: 'completed', transition: { decision: 'done' } } as const;
  const [stage, place] = step;
  return { kind: 'enter', stage, place, inputs: { step: history.length }, transition: { decision: 'next' } } as const;
}

function madeUpDigest(inventory: JsonObject): string {
  return createHash('sha256').update(JSON.stringify(inventory)).digest('hex');
}

export const MADE_UP_INVENTORY: JsonObject = { version: 1 };

export interface Planted {
  readonly workflow?: string;
  readonly version?: number;
  readonly inventory?: JsonObject;
}

/** Submits this many requests and makes them approved; returns their ids in order. */
export async function plant(database: Database, count: number, planted: Planted = {}): Promise<readonly string[]> {
  const inventory = planted.inventory ?? MADE_UP_INVENTORY;
  const ids = Array.from({ length: count }, () => uuidv7());
  await database.transaction((tx) =>
    submit(
      tx,
      ids.map((id) => ({
        id,
        workflow: planted.workflow ?? 'made-up',
        workflowVersion: planted.version ?? 1,
        target: null,
        subjectReference: `subject-${id}`,
        inventory,
        inventoryDigest: madeUpDigest(inventory),
        requestedBy: 'operator-a',
        reasonCode: null,
        idempotencyKey: null,
        approvalsRequired: 1,
        dueAt: null,
        sealed: [],
      })),
    ),
  );
  await sql`UPDATE ${database.t.requests} SET status = 'approved' WHERE id = ANY (${ids}::uuid[])`.execute(database.db);
  return ids;
}
