import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWithPostgres } from '../../../test/support/postgres.js';
import {
  createTargetDatabase,
  failureOf,
  quiet,
  subjectsById,
  type TargetDatabase,
} from '../../../test/support/postgres-target.js';
import { TargetDeclarationError } from '../target-error.js';
import type { PostgresOptions, Tables } from './index.js';

describeWithPostgres('what a PostgreSQL target says of itself', () => {
  let database: TargetDatabase;
  beforeAll(async () => {
    database = await createTargetDatabase();
  });
  afterAll(() => database.drop());

  /** Makes a schema of the test's own, so that tables have short names, and describes a declaration on it. */
  async function inSchema(
    sql: string,
  ): Promise<(tables: Tables, options?: Partial<PostgresOptions>) => ReturnType<typeof describing>> {
    const schema = `s${randomBytes(4).toString('hex')}`;
    await database.query(`CREATE SCHEMA ${schema}; SET search_path = ${schema}, public; ${sql}; RESET search_path`);
    return (tables, options) => describing(schema, tables, options);
  }

  async function describing(schema: string, tables: Tables, options: Partial<PostgresOptions> = {}) {
    const { url = database.url, ...rest } = options;
    const target = database.open({ url, schemas: { [schema]: tables }, ...rest });
    const plain = (text: string): string => text.replaceAll(`${schema}.`, '');
    return {
      places: async () => (await target.describe(quiet())).map((place) => ({ ...place, place: plain(place.place) })),
      refusal: async () => {
        const error = await failureOf(target.describe(quiet()));
        expect(error).toBeInstanceOf(TargetDeclarationError);
        return plain(error.message);
      },
    };
  }

  const byId = { key: { id: 'id' }, action: 'delete' } as const;
  const keep = { basis: 'tax law', from: 'day', for: 'P10Y' } as const;

  it('WF-21: names a masked row that still carries a key pseudonymized, and never deleted', async () => {
    const of = await inSchema(`
      CREATE TABLE a (id int, name text);
      CREATE TABLE b (id int, tenant int, name text);
      CREATE TABLE c (id int PRIMARY KEY, day date);
      CREATE TABLE d (c_id int REFERENCES c, name text);`);
    const places = await (
      await of({
        a: [
          { key: { id: 'id' }, action: 'anonymize', set: { id: null, name: null } },
          { key: { name: 'id' }, action: 'anonymize', set: { id: null } },
        ],
        b: { key: { id: 'id', tenant: 'tenant' }, action: 'anonymize', set: { id: null, name: null } },
        c: { key: { id: 'id' }, action: 'retain', keep },
        d: { through: 'c', action: 'anonymize', set: { name: null }, keep },
      })
    ).places();
    expect(Object.fromEntries(places.map(({ place, action, basis }) => [place, [action, basis]]))).toEqual({
      'a(id)': ['anonymize', null],
      'a(name)': ['pseudonymize', null],
      b: ['pseudonymize', null],
      c: ['retain', 'tax law'],
      d: ['pseudonymize', 'tax law'],
    });
  });

  it('WF-10: refuses tables that reference and are not declared, by name, with what the key would do, through cascades too', async () => {
    const of = await inSchema(`
      CREATE TABLE a (id int PRIMARY KEY);
      CREATE TABLE b (no int PRIMARY KEY, a_id int CONSTRAINT b_to_a REFERENCES a ON DELETE CASCADE);
      CREATE TABLE c (no int, b_no int CONSTRAINT c_to_b REFERENCES b);
      CREATE TABLE d (a_id int CONSTRAINT d_to_a REFERENCES a ON DELETE SET NULL);`);
    const message = await (await of({ a: byId })).refusal();
    expect(message).toContain('"a" is referenced by tables that are not declared: "b" (b_to_a, ON DELETE CASCADE)');
    expect(message).toContain('"c" (c_to_b, ON DELETE NO ACTION, reached by the cascade through "b")');
    expect(message).toContain('"d" (d_to_a, ON DELETE SET NULL)');
    const places = await (
      await of({
        a: byId,
        b: { through: 'a', action: 'delete' },
        c: { through: 'b', action: 'delete' },
        d: { through: 'a', action: 'delete' },
      })
    ).places();
    const order = places.map(({ place }) => place);
    expect(order.at(-1)).toBe('a');
    expect(order.indexOf('c')).toBeLessThan(order.indexOf('b'));
  });

  it('WF-10: refuses a kept row whose foreign key to a deleted one would refuse or change it', async () => {
    const of = await inSchema(`
      CREATE TABLE a (id int PRIMARY KEY);
      CREATE TABLE b (id int CONSTRAINT b_to_a REFERENCES a, day date, note text);`);
    expect(await (await of({ a: byId, b: { key: { id: 'id' }, action: 'retain', keep } })).refusal()).toContain(
      '"b" keeps rows that reference "a" (b_to_a, ON DELETE NO ACTION), which is deleted',
    );
    expect(
      await (await of({ a: byId, b: { key: { id: 'id' }, action: 'anonymize', set: { note: null } } })).refusal(),
    ).toContain('"b" keeps rows that reference "a"');
    await (await of({ a: byId, b: { key: { id: 'id' }, action: 'anonymize', set: { id: null } } })).places();
  });

  it('WF-16: refuses rows that stay without the parent through which alone they are found', async () => {
    const of = await inSchema('CREATE TABLE a (id int PRIMARY KEY, day date); CREATE TABLE b (a_id int, note text);');
    const through = { table: 'a', on: { a_id: 'id' } };
    expect(await (await of({ a: byId, b: { through, action: 'retain', keep } })).refusal()).toContain(
      '"b" keeps rows through "a", which is deleted',
    );
    await (await of({ a: byId, b: { through, action: 'anonymize', set: { a_id: null } } })).places();
  });

  it.each([
    ['a missing table', 'CREATE TABLE a (id int)', { A: byId }, '"A" is not in the database'],
    [
      'a missing column',
      'CREATE TABLE a (id int)',
      { a: { key: { Id: 'id' }, action: 'delete' } },
      'names the column "Id", which "a" does not have',
    ],
    ['a view', 'CREATE VIEW a AS SELECT 1 AS id', { a: byId }, '"a" is a view'],
    ['a materialized view', 'CREATE MATERIALIZED VIEW a AS SELECT 1 AS id', { a: byId }, '"a" is a materialized view'],
    [
      'a partition',
      'CREATE TABLE r (id int) PARTITION BY LIST (id); CREATE TABLE a PARTITION OF r DEFAULT',
      { a: byId },
      '"a" is a partition; declare "r"',
    ],
    [
      'heirs',
      'CREATE TABLE a (id int); CREATE TABLE heir () INHERITS (a)',
      { a: byId },
      'inherit from it and hold rows of their own: "heir"',
    ],
    ['a key of a wrong type', 'CREATE TABLE a (id jsonb)', { a: byId }, 'key column "id" of type jsonb'],
    ['a key of floating point', 'CREATE TABLE a (id float8)', { a: byId }, 'key column "id" of type double precision'],
    [
      'NULL for NOT NULL',
      'CREATE TABLE a (id int, name text NOT NULL)',
      { a: { key: { id: 'id' }, action: 'anonymize', set: { name: null } } },
      'sets "name" to null, which is NOT NULL',
    ],
    [
      'NULL for a NOT NULL domain',
      'CREATE DOMAIN given AS text NOT NULL; CREATE TABLE a (id int, name given)',
      { a: { key: { id: 'id' }, action: 'anonymize', set: { name: null } } },
      'NOT NULL',
    ],
    [
      'a value of another type',
      'CREATE TABLE a (id int, age int)',
      { a: { key: { id: 'id' }, action: 'anonymize', set: { age: 'gone' } } },
      'sets "age" of type integer to a value that it does not take',
    ],
    [
      'a value that would be cut',
      'CREATE TABLE a (id int, name varchar(4))',
      { a: { key: { id: 'id' }, action: 'anonymize', set: { name: 'erased' } } },
      'sets "name" of type character varying(4)',
    ],
    [
      'a value that would be rounded',
      'CREATE TABLE a (id int, sum numeric(5,1))',
      { a: { key: { id: 'id' }, action: 'anonymize', set: { sum: 1.25 } } },
      'sets "sum" of type numeric(5,1)',
    ],
    [
      'a value that a domain refuses',
      `CREATE DOMAIN word AS text CHECK (value <> 'no'); CREATE TABLE a (id int, name word)`,
      { a: { key: { id: 'id' }, action: 'anonymize', set: { name: 'no' } } },
      'sets "name"',
    ],
    [
      'a generated column',
      'CREATE TABLE a (id int, twice int GENERATED ALWAYS AS (id * 2) STORED)',
      { a: { key: { id: 'id' }, action: 'anonymize', set: { twice: 0 } } },
      'sets "twice", which the database generates',
    ],
    [
      'one value for a unique column',
      'CREATE TABLE a (id int, mail text UNIQUE)',
      { a: { key: { id: 'id' }, action: 'anonymize', set: { mail: 'gone' } } },
      'sets every column of the unique index "a_mail_key"',
    ],
    [
      'a date that is none',
      'CREATE TABLE a (id int, day text)',
      { a: { key: { id: 'id' }, action: 'retain', keep } },
      'keeps rows from "day" of type text',
    ],
    [
      'a parent that is not declared',
      'CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE a (p_id int REFERENCES p)',
      { a: { through: 'p', action: 'delete' } },
      'goes through "p", which is not declared',
    ],
    [
      'no foreign key',
      'CREATE TABLE p (id int); CREATE TABLE a (p_id int)',
      { p: byId, a: { through: 'p', action: 'delete' } },
      'to which no foreign key leads; name the columns: through: {',
    ],
    [
      'several foreign keys',
      'CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE a (x int REFERENCES p, y int REFERENCES p)',
      { p: byId, a: { through: 'p', action: 'delete' } },
      'to which 2 foreign keys lead',
    ],
    [
      'a parent with several rules',
      'CREATE TABLE p (id int, other int); CREATE TABLE a (p_id int)',
      {
        p: [byId, { key: { other: 'id' }, action: 'delete' }],
        a: { through: { table: 'p', on: { p_id: 'id' } }, action: 'delete' },
      },
      'which has several rules; name one of them: "p(id)" or "p(other)"',
    ],
    [
      'a circle of parents',
      'CREATE TABLE a (x int); CREATE TABLE b (x int)',
      {
        a: { through: { table: 'b', on: { x: 'x' } }, action: 'delete' },
        b: { through: { table: 'a', on: { x: 'x' } }, action: 'delete' },
      },
      'is reached through itself',
    ],
    [
      'columns that cannot be compared',
      'CREATE TABLE p (id int); CREATE TABLE a (p_id text)',
      { p: byId, a: { through: { table: 'p', on: { p_id: 'id' } }, action: 'delete' } },
      'columns that the database cannot compare',
    ],
    [
      'sessions that something else has to leave first',
      'CREATE TABLE s (id int, no int PRIMARY KEY); CREATE TABLE use (id int, s_no int REFERENCES s)',
      { s: { ...byId, revoke: true }, use: byId },
      '"s" is to be revoked first, but rows of "use" have to go before',
    ],
  ] as [string, string, Tables, string][])('WF-12: refuses %s', async (_, sql, tables, expected) => {
    const of = await inSchema(sql);
    expect(await (await of(tables)).refusal()).toContain(expected);
  });

  it('takes values that only look like a problem', async () => {
    const of = await inSchema(`
      CREATE TABLE a (id int, name varchar(6), mail text UNIQUE, data json, more jsonb, flag boolean, pad char(8), seen timestamptz);
      CREATE TABLE heir () INHERITS (a)`);
    const set = {
      name: 'erased',
      mail: null,
      data: { a: 1 },
      more: [],
      flag: false,
      pad: 'x',
      seen: '1970-01-01T00:00:00Z',
    };
    await (await of({ a: { key: { id: 'id' }, action: 'anonymize', set }, heir: byId })).places();
  });

  it('WF-19: refuses row-level security that would hide rows, unless the role is above it', async () => {
    const of = await inSchema(`
      CREATE TABLE a (id int);
      ALTER TABLE a ENABLE ROW LEVEL SECURITY;
      CREATE POLICY own ON a USING (id > 100)`);
    await (await of({ a: byId })).places();
    const { url, dropRole } = await roleFor(database, 'SELECT, DELETE, UPDATE');
    try {
      expect(await (await of({ a: byId }, { url })).refusal()).toContain(
        'row-level security that hides rows from this role',
      );
    } finally {
      await dropRole();
    }
  });

  it('WF-19: a policy that comes later is an error and not a count of zero', async () => {
    await database.query('CREATE TABLE late (id int); INSERT INTO late VALUES (1)');
    const { url, dropRole } = await roleFor(database, 'SELECT, DELETE, UPDATE');
    try {
      const target = database.open({ url, tables: { late: byId } });
      await target.describe(quiet());
      await database.query('ALTER TABLE late ENABLE ROW LEVEL SECURITY');
      const error = await failureOf(target.count(subjectsById({ a: '1' }), quiet()));
      expect(error.detail.cause).toBe('42501');
      await target.close();
    } finally {
      await dropRole();
    }
  });

  it('names the privileges that the role lacks', async () => {
    const of = await inSchema('CREATE TABLE a (id int)');
    const { url, dropRole } = await roleFor(database, 'SELECT');
    try {
      expect(await (await of({ a: byId }, { url })).refusal()).toContain(
        '"a" needs DELETE, UPDATE granted to this role',
      );
    } finally {
      await dropRole();
    }
  });
});

/** A role that owns nothing and may do `privileges` with all that is there; roles belong to the server and are dropped. */
async function roleFor(
  database: TargetDatabase,
  privileges: string,
): Promise<{ url: string; dropRole: () => Promise<void> }> {
  const role = `expunge_test_${randomBytes(6).toString('hex')}`;
  const schemas = await database.query(`SELECT nspname AS name FROM pg_namespace WHERE nspname !~ '^pg_|^information'`);
  await database.query(`CREATE ROLE ${role} LOGIN`);
  for (const { name } of schemas) {
    await database.query(
      `GRANT USAGE ON SCHEMA ${String(name)} TO ${role}; GRANT ${privileges} ON ALL TABLES IN SCHEMA ${String(name)} TO ${role}`,
    );
  }
  const url = new URL(database.url);
  url.username = role;
  return {
    url: url.href,
    dropRole: async () => void (await database.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`)),
  };
}
