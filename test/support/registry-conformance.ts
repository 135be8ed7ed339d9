/** What every registry has to do (registry.md, REG), whatever store it is on: one suite, run against each. */
import { randomBytes, randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { Counters } from '../../src/observe/counters.js';
import { PostgresRegistry } from '../../src/registry/postgres/postgres-registry.js';
import { DELETION_TOMBSTONE_TTL, type Mark, type Registry } from '../../src/registry/registry.js';
import type { Database } from '../../src/storage/database.js';
import { type LogLine, readableLog, type TestRecord } from './record.js';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 120_000 });

/** A registry with everything that it logged and counted. */
export interface Watched {
  readonly registry: Registry;
  readonly lines: readonly LogLine[];
  readonly counters: Counters;
}

export function watchedRegistry(database: Database): Watched {
  const { log, lines } = readableLog();
  const counters = new Counters();
  return { registry: new PostgresRegistry({ database, log, counters }), lines, counters };
}

/** A reference in the form that keys make, of nobody. */
export function aReference(): string {
  return `ref1.test.${randomBytes(32).toString('base64url')}`;
}

export function aMark(change: Partial<Mark> = {}): Mark {
  return { requestId: randomUUID(), groupId: randomUUID(), references: [aReference()], generation: 100, ...change };
}

/** One tombstone as it is stored; null where there is none. */
export async function rowOf({ db, t }: Database, reference: string): Promise<Readonly<Record<string, unknown>> | null> {
  const { rows } = await sql<Record<string, unknown>>`
    SELECT * FROM ${t.tombstones} WHERE reference = ${reference}::text`.execute(db);
  return rows[0] ?? null;
}

/** Every row with the transaction that wrote it last: nothing can change without being seen here. */
export async function everyTombstone({ db, t }: Database): Promise<readonly string[]> {
  const { rows } = await sql<{ row: string }>`
    SELECT xmin::text || to_jsonb(s)::text AS row FROM ${t.tombstones} s ORDER BY reference`.execute(db);
  return rows.map(({ row }) => row);
}

const only = <K, V>(map: ReadonlyMap<K, V>): V => [...map.values()][0] as V;

/** The suite. `open` is called once. */
export function registryConformance(open: () => Promise<TestRecord>): void {
  let record: TestRecord;
  let watched: Watched;
  let registry: Registry;
  beforeAll(async () => {
    record = await open();
  });
  afterAll(() => record.close());
  beforeEach(() => {
    watched = watchedRegistry(record.database);
    registry = watched.registry;
  });

  const stateOf = async ({ references: [reference] }: Mark): Promise<unknown> =>
    (await registry.getDeletionStatus(reference as string)).state;
  const marked = async (change: Partial<Mark> = {}): Promise<Mark> => {
    const mark = aMark(change);
    expect(only(await registry.mark([mark]))).toBe('marked');
    return mark;
  };
  const completed = async (change: Partial<Mark> = {}): Promise<Mark> => {
    const mark = await marked(change);
    await registry.markErased([mark]);
    await registry.complete([mark], 60);
    return mark;
  };
  const at = (generation: number, { references }: Mark): Mark => aMark({ references, generation });
  const refOf = ({ references }: Mark): string => references[0] as string;
  const write = async (reference: string, set: ReturnType<typeof sql>): Promise<void> => {
    const { db, t } = record.database;
    await sql`UPDATE ${t.tombstones} SET ${set} WHERE reference = ${reference}`.execute(db);
  };

  it('REG-1, REG-4: an absence is read as one, and says nothing', async () => {
    expect(await registry.getDeletionStatus(aReference())).toEqual({
      status: 'NOT_DELETED',
      state: null,
      generation: 0,
    });
    expect(watched.lines).toEqual([]);
    expect(watched.counters.snapshot()).toEqual([]);
  });

  it('REG-1, REG-12: in progress, erased and complete all answer DELETED, with state and generation', async () => {
    const mark = aMark();
    const answers = [];
    for (const change of [registry.mark, registry.markErased, (marks: Mark[]) => registry.complete(marks, 60)]) {
      expect(only(await change.call(registry, [mark]))).toBe('marked');
      answers.push(await registry.getDeletionStatus(refOf(mark)));
    }
    expect(answers).toEqual(
      ['in_progress', 'erased', 'complete'].map((state) => ({ status: 'DELETED', state, generation: 100 })),
    );
  });

  it('REG-3: a status is one statement, and so are a hundred', async () => {
    const mark = await marked();
    record.statements.length = 0;
    await registry.getDeletionStatus(refOf(mark));
    expect(record.statements).toHaveLength(1);
    const others = Array.from({ length: 100 }, aReference);
    const answers = await registry.getDeletionStatuses([...others, refOf(mark)]);
    expect(record.statements).toHaveLength(2);
    expect(answers.get(refOf(mark))).toMatchObject({ status: 'DELETED', state: 'in_progress' });
    expect(others.every((other) => answers.get(other)?.status === 'NOT_DELETED')).toBe(true);
    expect([...answers.keys()]).toEqual([...others, refOf(mark)]);
  });

  it('REG-3: the read is by the primary key', async () => {
    const { db, t } = record.database;
    await registry.getDeletionStatus(aReference());
    const text = record.statements.at(-1) as string;
    expect(text).toMatch(/WHERE reference = \$1::text$/);
    const { rows } = await db.transaction().execute(async (tx) => {
      await sql`SET LOCAL enable_seqscan = off`.execute(tx);
      return sql<Record<string, string>>`EXPLAIN SELECT state FROM ${t.tombstones} WHERE reference = 'x'::text`.execute(
        tx,
      );
    });
    expect(JSON.stringify(rows)).toContain('deletion_tombstones_pkey');
  });

  it.each([
    ['nothing', ''],
    ['an identifier', 'anna@example.com'],
    ['a truncated reference', 'ref1.test.abc'],
  ])('REG-5: %s in place of a reference is UNKNOWN, with one ERROR, and is not repeated', async (_what, text) => {
    expect(await registry.getDeletionStatus(text)).toEqual({ status: 'UNKNOWN', state: null, generation: 0 });
    expect(watched.lines).toMatchObject([{ event: 'registry_read_failed', code: 'INVALID_REFERENCE' }]);
    expect(watched.counters.total('expunge_registry_read_failures_total')).toBe(1);
    expect(JSON.stringify(watched.lines)).not.toContain('anna');
    const good = aReference();
    const answers = await registry.getDeletionStatuses([text, good]);
    expect([answers.get(text)?.status, answers.get(good)?.status]).toEqual(['UNKNOWN', 'NOT_DELETED']);
  });

  it('REG-6: it expires only when the deletion is complete, and then after what was asked for', async () => {
    const mark = await marked();
    expect(await rowOf(record.database, refOf(mark))).toMatchObject({ expires_at: null });
    await registry.markErased([mark]);
    expect(await rowOf(record.database, refOf(mark))).toMatchObject({ expires_at: null });
    await registry.complete([mark], DELETION_TOMBSTONE_TTL);
    expect(DELETION_TOMBSTONE_TTL).toBe(2_592_000);
    const { db, t } = record.database;
    const { rows } = await sql<{ seconds: number }>`
      SELECT extract(epoch FROM expires_at - clock_timestamp())::float8 AS seconds
        FROM ${t.tombstones} WHERE reference = ${refOf(mark)}`.execute(db);
    expect(rows[0]?.seconds).toBeGreaterThan(DELETION_TOMBSTONE_TTL - 60);
    expect(rows[0]?.seconds).toBeLessThanOrEqual(DELETION_TOMBSTONE_TTL);
  });

  it('REG-7, REG-10: one that has expired is not live, swept or not, and its generation stands', async () => {
    const mark = await completed();
    await write(refOf(mark), sql`expires_at = clock_timestamp()`);
    expect(await registry.getDeletionStatus(refOf(mark))).toMatchObject({ status: 'NOT_DELETED', generation: 100 });
    expect((await registry.getDeletionStatuses(mark.references)).get(refOf(mark))?.status).toBe('NOT_DELETED');
  });

  it('REG-13: complete, it no longer names the request', async () => {
    const mark = await marked();
    expect(await rowOf(record.database, refOf(mark))).toMatchObject({ request_id: mark.requestId });
    await registry.complete([mark], 60);
    expect(JSON.stringify(await rowOf(record.database, refOf(mark)))).not.toContain(mark.requestId);
  });

  it('REG-14: the rows of one deletion share a group, and are written together', async () => {
    const mark = await marked({ references: [aReference(), aReference(), aReference()] });
    for (const reference of mark.references) {
      expect(await rowOf(record.database, reference)).toMatchObject({ group_id: mark.groupId, state: 'in_progress' });
    }
  });

  it('REG-11: rows of one deletion change together or not at all', async () => {
    const newer = await marked({ generation: 300 });
    const fresh = aReference();
    const older = await marked({ generation: 50 });
    const before = await everyTombstone(record.database);
    const mark = aMark({ references: [fresh, refOf(newer), refOf(older)], generation: 200 });
    for (const change of [
      registry.mark([mark]),
      registry.check([mark]),
      registry.markErased([mark]),
      registry.reopen([mark]),
      registry.complete([mark], 60),
      registry.ungate([mark], new Map([[mark.requestId, 400]]), 60),
    ]) {
      expect(only(await change)).toBe('superseded');
    }
    expect(await everyTombstone(record.database)).toEqual(before);
  });

  it('REG-11: marking is idempotent per generation, and keeps the first deleted_at', async () => {
    const mark = await marked();
    const before = await everyTombstone(record.database);
    expect(only(await registry.mark([mark]))).toBe('marked');
    expect(only(await registry.mark([{ ...mark, requestId: randomUUID(), groupId: randomUUID() }]))).toBe('marked');
    expect(await everyTombstone(record.database)).toEqual(before);
    await registry.complete([mark], 60);
    const complete = await everyTombstone(record.database);
    expect(only(await registry.mark([mark]))).toBe('marked');
    expect(await everyTombstone(record.database)).toEqual(complete);
  });

  it('REG-11: below the generation nothing changes anything', async () => {
    const mark = await marked({ generation: 200 });
    const before = await everyTombstone(record.database);
    expect(only(await registry.mark([at(199, mark)]))).toBe('superseded');
    expect(await everyTombstone(record.database)).toEqual(before);
  });

  it('a newer mark takes the row over, with a deleted_at of its own', async () => {
    const mark = await completed();
    const newer = at(200, mark);
    expect(only(await registry.mark([newer]))).toBe('marked');
    expect(await rowOf(record.database, refOf(mark))).toMatchObject({
      state: 'in_progress',
      generation: 200,
      deleted_generation: 200,
      expires_at: null,
      request_id: newer.requestId,
      group_id: newer.groupId,
    });
    expect(only(await registry.check([mark]))).toBe('superseded');
  });

  it('says missing where there is no row, or only an older one', async () => {
    const old = await marked();
    for (const mark of [aMark(), at(200, old)]) {
      const before = await everyTombstone(record.database);
      expect(only(await registry.check([mark]))).toBe('missing');
      expect(only(await registry.markErased([mark]))).toBe('missing');
      expect(only(await registry.complete([mark], 60))).toBe('missing');
      expect(await everyTombstone(record.database)).toEqual(before);
    }
  });

  it('REG-9: erased allows re-creation, and is taken back while something is erased again', async () => {
    const mark = await marked();
    await registry.markErased([mark]);
    expect(await stateOf(mark)).toBe('erased');
    await registry.reopen([mark]);
    expect(await stateOf(mark)).toBe('in_progress');
    await registry.reopen([mark]);
    expect(await stateOf(mark)).toBe('in_progress');
    await registry.complete([mark], 60);
    await registry.reopen([mark]);
    await registry.markErased([mark]);
    expect(await stateOf(mark)).toBe('complete');
  });

  it('REG-6: completing again does not move the end', async () => {
    const mark = await completed();
    const before = await everyTombstone(record.database);
    expect(only(await registry.complete([mark], 9_999))).toBe('marked');
    expect(await everyTombstone(record.database)).toEqual(before);
  });

  it('REG-9, REG-10: after an ungate the subject is alive, in a newer generation, and old references are good', async () => {
    const mark = await marked();
    const live = new Map([[mark.requestId, 200]]);
    expect(only(await registry.ungate([mark], live, 60))).toBe('marked');
    expect(await registry.getDeletionStatus(refOf(mark))).toEqual({
      status: 'NOT_DELETED',
      state: 'live',
      generation: 200,
    });
    const row = await rowOf(record.database, refOf(mark));
    expect(row).toMatchObject({ deleted_generation: 0, request_id: null });
    expect(row?.['expires_at']).not.toBeNull();
    const before = await everyTombstone(record.database);
    expect(only(await registry.ungate([mark], live, 60))).toBe('superseded');
    expect(only(await registry.mark([mark]))).toBe('superseded');
    expect(await everyTombstone(record.database)).toEqual(before);
  });

  it('REG-9: an ungate does not bring to life what an earlier deletion removed', async () => {
    const first = await completed();
    const before = await rowOf(record.database, refOf(first));
    const second = at(200, first);
    await registry.mark([second]);
    await registry.ungate([second], new Map([[second.requestId, 300]]), 9_999);
    expect(await registry.getDeletionStatus(refOf(first))).toMatchObject({ status: 'DELETED', generation: 300 });
    expect(await rowOf(record.database, refOf(first))).toMatchObject({
      state: 'complete',
      deleted_generation: 100,
      expires_at: before?.['expires_at'],
    });
  });

  it('REG-9: after a life in between, an ungate puts back the deletion before it', async () => {
    const first = await completed();
    // As a sign-up leaves it.
    await write(refOf(first), sql`state = 'live', generation = 150`);
    const second = at(200, first);
    await registry.mark([second]);
    await registry.ungate([second], new Map([[second.requestId, 300]]), 60);
    expect(await rowOf(record.database, refOf(first))).toMatchObject({
      state: 'live',
      generation: 300,
      deleted_generation: 100,
    });
  });

  it('REG-10: generations are never below the clock, nor below what was', async () => {
    const { db } = record.database;
    const { rows } = await sql<{ now: number }>`
      SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now`.execute(db);
    const high = 9_000_000_000_000_000;
    const ahead = await marked({ references: [aReference(), aReference()], generation: high });
    const proposed = await registry.proposeGenerations(
      new Map([
        ['new', [aReference()]],
        ['known', [aReference(), ahead.references[1] as string]],
      ]),
    );
    expect(proposed.get('new')).toBeGreaterThanOrEqual(rows[0]?.now as number);
    expect(proposed.get('known')).toBe(high + 1);
  });

  it('REG-10: an expired row still counts, and each further generation is higher', async () => {
    const mark = await completed({ generation: 8_000_000_000_000_000 });
    await write(refOf(mark), sql`expires_at = clock_timestamp() - interval '1 day'`);
    let last = 8_000_000_000_000_000;
    for (let round = 0; round < 3; round += 1) {
      const next = only(await registry.proposeGenerations(new Map([['r', mark.references]])));
      expect(next).toBeGreaterThan(last);
      const again = at(next, mark);
      expect(only(await registry.mark([again]))).toBe('marked');
      last = next;
    }
  });

  it('takes a batch in one statement, and answers for each', async () => {
    const known = await marked({ generation: 500 });
    const marks = [...Array.from({ length: 500 }, () => aMark()), at(100, known)];
    record.statements.length = 0;
    const results = await registry.mark(marks);
    expect(record.statements).toHaveLength(1);
    expect(results.get(marks.at(-1)?.requestId ?? '')).toBe('superseded');
    expect([...results.values()].filter((result) => result === 'marked')).toHaveLength(500);
    for (const change of [registry.check(marks), registry.markErased(marks), registry.complete(marks, 60)]) {
      expect([...(await change).values()].filter((result) => result === 'marked')).toHaveLength(500);
    }
    expect(record.statements).toHaveLength(4);
    expect(await registry.mark([])).toEqual(new Map());
  });

  it('two deletions of one subject in one batch: the newer has it', async () => {
    const older = aMark({ generation: 100 });
    const newer = at(200, older);
    const results = await registry.mark([newer, older]);
    expect([results.get(older.requestId), results.get(newer.requestId)]).toEqual(['superseded', 'marked']);
    expect(await rowOf(record.database, refOf(older))).toMatchObject({ generation: 200, request_id: newer.requestId });
  });

  it('REG-1, REG-4: a table that is gone is UNKNOWN, one ERROR, counted; and every change throws', async () => {
    const { db, schema } = record.database;
    const mark = await marked();
    const rename = (from: string, to: string) =>
      sql`ALTER TABLE ${sql.id(schema, from)} RENAME TO ${sql.id(to)}`.execute(db);
    await rename('deletion_tombstones', 'hidden');
    try {
      expect(await registry.getDeletionStatus(refOf(mark))).toEqual({ status: 'UNKNOWN', state: null, generation: 0 });
      expect(watched.lines).toMatchObject([{ level: 'error', event: 'registry_read_failed', code: '42P01' }]);
      expect(watched.counters.total('expunge_registry_read_failures_total')).toBe(1);
      const many = await registry.getDeletionStatuses([refOf(mark), aReference()]);
      expect([...many.values()].map(({ status }) => status)).toEqual(['UNKNOWN', 'UNKNOWN']);
      expect(watched.lines).toHaveLength(2);
      await everyChangeThrows(registry, mark, '42P01');
    } finally {
      await rename('hidden', 'deletion_tombstones');
    }
    expect(await registry.getDeletionStatus(refOf(mark))).toMatchObject({ status: 'DELETED' });
  });
}

/** A change that could not be made is never an answer (REG-11). */
export async function everyChangeThrows(registry: Registry, mark: Mark, code: string): Promise<void> {
  const live = new Map([[mark.requestId, mark.generation + 1]]);
  for (const change of [
    () => registry.proposeGenerations(new Map([['r', mark.references]])),
    () => registry.mark([mark]),
    () => registry.check([mark]),
    () => registry.markErased([mark]),
    () => registry.reopen([mark]),
    () => registry.complete([mark], 60),
    () => registry.ungate([mark], live, 60),
  ]) {
    await expect(change()).rejects.toMatchObject({ code });
  }
}
