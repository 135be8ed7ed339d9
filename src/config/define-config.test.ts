import { describe, expect, expectTypeOf, it } from 'vitest';
import type { LocatorSource, Target, TargetDeclaration } from '../targets/target.js';
import { ConfigError } from './config-error.js';
import { defineConfig } from './define-config.js';
import type { ResolvedConfig } from './resolved-config.js';

/** A declaration such as `postgres()` makes it. */
function target<const I extends string>(...identifiers: I[]): TargetDeclaration<I> {
  return {
    kind: 'made-up',
    handlerVersion: 1,
    plan: { tables: ['customer'] },
    identifiers,
    locators: {},
    revokes: false,
    open: (): Target => {
      throw new Error('A configuration opens no target.');
    },
  };
}

/** The same, found by what another target knows. */
function located<const T extends string>(...sources: T[]) {
  const locators = sources.map((source) => [source, { target: source, place: 'invoice', column: 'no' }] as const);
  return {
    ...target(),
    locators: Object.fromEntries(locators) as Record<string, LocatorSource & { readonly target: T }>,
  };
}

const subject = {
  key: 'customerId',
  identifiers: { customerId: { opaque: true }, email: { normalise: 'email' } },
} as const;
const least = { subject, targets: { shop: target('customerId') } };

/** What is wrong with a configuration that the compiler may know nothing of. */
function linesOf(config: unknown): readonly string[] {
  return errorOf(config).lines;
}

function errorOf(config: unknown): ConfigError {
  try {
    defineConfig(config as Parameters<typeof defineConfig>[0]);
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error('The configuration was accepted.');
}

describe('a configuration that is right', () => {
  it('is complete with the defaults', () => {
    const config = defineConfig(least);
    expect(config).toEqual({
      database: { kind: 'pglite', directory: '.expunge', allowInProduction: false, declared: false },
      keys: null,
      tenant: null,
      subject: { key: 'customerId', identifiers: { customerId: { opaque: true }, email: { normalise: 'email' } } },
      fences: {},
      targets: { shop: least.targets.shop },
      approvals: { required: 1, expireAfter: { iso: 'P7D', seconds: 604_800 } },
      bounds: { rows: 10_000, drift: 100, batch: 1_000_000 },
      protected: { customerId: [], email: [] },
      settle: { after: { iso: 'PT0S', seconds: 0 } },
      tombstones: { keep: { iso: 'P30D', seconds: 2_592_000 } },
      backups: { horizon: { iso: 'PT0S', seconds: 0 } },
      receipts: { token: false },
    });
  });

  it('keeps what is given, in the order in which it is declared', () => {
    const config = defineConfig({
      database: 'postgres://expunge:secret@db/expunge',
      embedded: { directory: 'unused' },
      keys: { file: '/run/keys.json' },
      tenant: 'north',
      subject,
      fences: { shop: { url: 'postgresql://shop@db/shop' } },
      targets: { zoo: target('email'), artifacts: located('zoo'), '10': target() },
      approvals: { required: 2, expireAfter: 'PT36H' },
      bounds: { drift: 0 },
      protected: { customerId: ['0', 'system'], email: ['Root@EXAMPLE.com'] },
      settle: { after: 'P3D' },
      tombstones: { keep: 'P1Y' },
      backups: { horizon: 'P3M' },
      receipts: { token: true },
    });
    expect(config).toMatchObject({
      database: { kind: 'postgres', url: 'postgres://expunge:secret@db/expunge' },
      keys: { file: '/run/keys.json' },
      tenant: 'north',
      fences: { shop: { url: 'postgresql://shop@db/shop' } },
      approvals: { required: 2, expireAfter: { iso: 'PT36H', seconds: 129_600 } },
      bounds: { rows: 10_000, drift: 0, batch: 1_000_000 },
      protected: { customerId: ['0', 'system'], email: ['Root@example.com'] },
      tombstones: { keep: { iso: 'P1Y', seconds: null } },
      receipts: { token: true },
    });
    expect(Object.keys(config.targets).filter((name) => name !== '10')).toEqual(['zoo', 'artifacts']);
  });

  it('takes undefined for absent, as environment variables have it', () => {
    const config = defineConfig({
      ...least,
      database: undefined,
      embedded: { directory: undefined },
      keys: { file: undefined },
      protected: { email: undefined },
      bounds: undefined,
      settle: { after: undefined },
    });
    expect(config).toMatchObject({ database: { kind: 'pglite', directory: '.expunge', declared: true }, keys: null });
    expect(config.bounds).toEqual({ rows: 10_000, drift: 100, batch: 1_000_000 });
  });

  it('is frozen at every level, and leaves declarations as their authors made them', () => {
    const config = defineConfig({ ...least, protected: { customerId: ['0'] }, database: 'postgres://db/x' });
    const parts = [
      config,
      config.database,
      config.subject,
      config.subject.identifiers,
      config.targets,
      config.approvals,
    ];
    for (const part of [...parts, config.protected.customerId, config.tombstones.keep])
      expect(Object.isFrozen(part)).toBe(true);
    expect(config.targets.shop).toBe(least.targets.shop);
    expect(Object.isFrozen(subject)).toBe(false);
  });

  it('is answered as it is when it is declared again', () => {
    const config = defineConfig(least);
    expect(defineConfig(config as never)).toBe(config);
  });

  it('knows its identifiers and targets when compiling, and fits where any configuration does', () => {
    const config = defineConfig({ ...least, targets: { shop: target('customerId'), artifacts: located('shop') } });
    expectTypeOf(config.subject.key).toEqualTypeOf<'customerId' | 'email'>();
    expectTypeOf(config.targets).toEqualTypeOf<Readonly<Record<'shop' | 'artifacts', TargetDeclaration>>>();
    expectTypeOf(config).toExtend<ResolvedConfig>();
  });
});

describe('a configuration that is wrong when compiling, and at load', () => {
  it('a key that is not declared', () => {
    const error = errorOf({ ...least, subject: { ...subject, key: 'custmerId' } });
    expect(error.message).toBe(
      'The configuration is wrong at subject.key: found another name, custmerId, expected one of the declared identifiers, customerId, email.',
    );
    expect(error).toMatchObject({ code: 'CONFIG_INVALID', outcome: 'refused' });
    // @ts-expect-error -- not one of the identifiers
    void (() => defineConfig({ subject: { key: 'custmerId', identifiers: { customerId: {} } }, targets: {} }));
  });

  it('a target that uses an identifier that is not declared', () => {
    const targets = { shop: target('customerId'), other: target('email', 'custmerId') };
    expect(linesOf({ subject, targets })).toEqual([
      'targets.other.identifiers.1: found another name, custmerId, expected one of the declared identifiers, customerId, email',
    ]);
    void (() =>
      defineConfig({
        subject,
        targets: {
          shop: target('customerId'),
          // @ts-expect-error -- the identifier custmerId is not declared in subject.identifiers
          other: target('email', 'custmerId'),
        },
      }));
  });

  it('a target that is located by one that does not exist', () => {
    expect(linesOf({ subject, targets: { shop: target('customerId'), artifacts: located('shpo') } })).toEqual([
      'targets.artifacts.locators.shpo.target: found another name, shpo, expected one of the other targets, shop',
    ]);
    void (() =>
      defineConfig({
        subject,
        targets: {
          shop: target('customerId'),
          // @ts-expect-error -- there is no target shpo to locate it by
          artifacts: located('shpo'),
        },
      }));
  });

  it('protected values of an identifier that is not declared', () => {
    expect(linesOf({ ...least, protected: { custmerId: ['0'] } })).toEqual([
      'protected.custmerId: found an identifier that is not declared, expected one of the declared identifiers, customerId, email',
    ]);
    // @ts-expect-error -- not one of the identifiers
    void (() => defineConfig({ ...least, protected: { custmerId: ['0'] } }));
  });

  it('unknown fields, on every level', () => {
    expect(linesOf({ ...least, target: {}, bounds: { row: 1 }, keys: { path: 'x' } })).toEqual([
      'keys.path: found an unknown field, expected one of the fields file',
      'bounds.row: found an unknown field, expected one of the fields rows, drift, batch',
      expect.stringMatching(/^target: found an unknown field, expected one of the fields subject, targets, database/),
    ]);
    // @ts-expect-error -- no such field
    void (() => defineConfig({ ...least, target: {} }));
    // @ts-expect-error -- no such field
    void (() => defineConfig({ ...least, bounds: { row: 1 } }));
  });
});

describe('a configuration that is wrong at load', () => {
  it('says all that is wrong with it, and the first in one sentence', () => {
    const error = errorOf({
      subject: { key: 'customerId', identifiers: {} },
      targets: { Shop: target(), shop: 7, files: { ...target(), handlerVersion: 0, plan: { since: new Date(0) } } },
      approvals: { required: 0, expireAfter: 'P7X' },
      bounds: { rows: '10' },
      settle: { after: '-P1D' },
      fences: { shop: { url: undefined } },
      receipts: 'yes',
    });
    expect(error.lines).toEqual([
      'subject.identifiers: found an object, expected at least one identifier',
      'targets.Shop: found a name of another form, expected a name of 1 to 64 lower-case letters, digits and hyphens',
      'targets.shop: found a number, expected a declaration made by a function such as postgres() or files()',
      'targets.files.handlerVersion: found the number 0, expected a whole number of at least 1',
      'targets.files.plan: found an object, expected a plan in plain JSON, as made by a function such as postgres() or files()',
      'fences.shop.url: found nothing, expected a URL that begins with postgres://',
      'approvals.required: found the number 0, expected a whole number of at least 1',
      "approvals.expireAfter: found 'P7X', expected an ISO 8601 duration such as P7D, longer than nothing and at most P100Y",
      "bounds.rows: found '10', expected a whole number of at least 1",
      "settle.after: found '-P1D', expected an ISO 8601 duration such as P7D, not negative and at most P100Y",
      'receipts: found other text, expected an object with token',
    ]);
    expect(error.message).toBe(
      'The configuration is wrong at subject.identifiers: found an object, expected at least one identifier (and 10 more).',
    );
    expect(error.problems[6]).toEqual({
      path: 'approvals.required',
      found: 'the number 0',
      expected: 'a whole number of at least 1',
    });
  });

  it('is refused where it is no object at all', () => {
    for (const [nothing, found] of [
      [undefined, 'nothing'],
      [null, 'null'],
      [[], 'a list'],
      ['x', 'other text'],
    ] as const) {
      expect(linesOf(nothing)[0]).toContain(`its top: found ${found}, expected an object with subject, targets`);
    }
  });

  it('a target behind a fence that is not declared', () => {
    const targets = { shop: { ...target('customerId'), fence: 'shpo' }, zoo: { ...target(), fence: null } };
    expect(linesOf({ subject, targets, fences: { shop: { url: 'postgres://db/shop' } } })).toEqual([
      'targets.shop.fence: found another name, shpo, expected one of the fences, shop',
    ]);
    expect(linesOf({ subject, targets })).toEqual([
      'targets.shop.fence: found another name, shpo, expected one of the fences, of which there is none',
    ]);
  });

  it('identifiers that contradict themselves', () => {
    const identifiers = {
      id: { opaque: true, normalise: 'email' },
      'e mail': {},
      mail: { normalise: 'e-mail', foldLocalPart: true },
    };
    const lines = linesOf({ ...least, subject: { key: 'id', identifiers } });
    expect(lines.map((line) => line.split(', expected')[0])).toEqual([
      'subject.identifiers.id.opaque: found true',
      'subject.identifiers.(a name that is not shown): found a name of another form',
      "subject.identifiers.mail.normalise: found 'e-mail'",
    ]);
    expect(lines[0]).toMatch(/expected nothing for an e-mail address, which tells who it is$/);
    expect(lines[2]).toMatch(/expected one of exact, email$/);
  });

  it('WF-17: targets that can only be located by each other', () => {
    const targets = { a: located('b'), b: located('shop', 'c'), c: located('b'), shop: target('customerId') };
    expect(linesOf({ subject, targets })).toEqual([
      'targets.b.locators: found a circle, b needs c needs b, expected targets of which one can be located without the others',
    ]);
    expect(linesOf({ subject, targets: { self: located('self') } })[0]).toMatch(/^targets.self.locators.self.target:/);
  });

  it('WF-17: takes targets that are located by several others without a circle', () => {
    const targets = { a: located('b', 'c'), b: located('c'), c: target('customerId') };
    expect(Object.keys(defineConfig({ subject, targets }).targets)).toEqual(['a', 'b', 'c']);
  });

  it('REG-6: tombstones that go before the last delayed message or backup', () => {
    const periods = { settle: { after: 'P8D' }, tombstones: { keep: 'P7D' }, backups: { horizon: 'P1M' } };
    expect(linesOf({ ...least, ...periods })).toEqual([
      'tombstones.keep: found P7D, expected never less than settle.after, P8D',
      'tombstones.keep: found P7D, expected never less than backups.horizon, P1M',
    ]);
    expect(linesOf({ ...least, backups: { horizon: 'P31D' } })).toHaveLength(1);
    expect(defineConfig({ ...least, backups: { horizon: 'P30D' } }).tombstones.keep.iso).toBe('P30D');
  });

  it('WF-2: never prints urls, paths, or what could be an identifier', () => {
    const secret = 'postgers://expunge:hunter2@db/x';
    const person = 'jane@example.com';
    const error = errorOf({
      database: secret,
      keys: { file: 17_031_977 },
      tenant: `${person}\n`,
      subject: { key: person, identifiers: { [person]: secret } },
      fences: { [secret]: { url: secret }, shop: { url: secret, [secret]: 1 } },
      targets: { [person]: target(), shop: secret },
      protected: { [person]: [person], customerId: [17_031_977, person] },
      approvals: { expireAfter: secret, required: person },
      [person]: 1,
    });
    const identifier = errorOf({ ...least, protected: { email: ['jane', '17031977'] } });
    const text = [...error.lines, error.message, ...identifier.lines, JSON.stringify([error, identifier])].join('\n');
    expect(error.lines.length).toBeGreaterThan(10);
    expect(identifier.lines).toHaveLength(2);
    for (const hidden of ['hunter2', 'jane', '17031977', 'example']) expect(text).not.toContain(hidden);
  });
});
