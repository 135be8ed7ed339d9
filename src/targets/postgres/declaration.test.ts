import { describe, expect, it } from 'vitest';
import { TargetDeclarationError } from '../target-error.js';
import type { TargetDeclaration } from '../target.js';
import { postgres, type PostgresOptions, type TableRule } from './index.js';

const url = 'postgres://worker:s3cret@db.example:5433/shop?sslmode=disable';

/** As `defineConfig` holds a target's identifiers against those that are declared. */
function config<I extends string>(_config: {
  readonly identifiers: { readonly [name in I]: object };
  readonly targets: { readonly [name: string]: TargetDeclaration<NoInfer<I>> };
}): void {}

function refusalOf(options: unknown): string {
  try {
    postgres(options as PostgresOptions);
  } catch (error) {
    expect(error).toBeInstanceOf(TargetDeclarationError);
    return (error as Error).message;
  }
  throw new Error('it was not refused');
}

describe('the declaration of a PostgreSQL target', () => {
  it('WF-6: is plain data without credentials, and says what it uses', () => {
    const declaration = postgres({
      url,
      fence: 'shop',
      tables: {
        customer: { key: { customer_id: 'customerId' }, action: 'delete' },
        session: { key: { mail: 'email', customer_id: 'customerId' }, action: 'delete', revoke: true },
        invoice: {
          key: { customer_id: 'customerId' },
          action: 'anonymize',
          set: { customer_id: null, billing_address: null },
          keep: { basis: 'tax law', from: 'invoice_date', for: 'P10Y' },
        },
        search_log: { through: { table: 'visit', on: { visit_no: 'no' } }, action: 'delete' },
        message: [
          { key: { sender_id: 'customerId' }, action: 'anonymize', set: { sender_id: null, body: null } },
          { key: { receiver_id: 'customerId' }, action: 'anonymize', set: { receiver_id: null } },
        ],
      },
      schemas: { billing: { payment: { key: { payer: 'customerId' }, action: 'delete' } } },
    });
    expect(declaration).toMatchObject({ kind: 'postgres', fence: 'shop', revokes: true, locators: {} });
    expect(declaration.identifiers).toEqual(['customerId', 'email']);
    expect(declaration.plan.server).toEqual({ host: 'db.example', port: 5433, database: 'shop' });
    expect(declaration.plan.schemas).toEqual({
      billing: { payment: { key: { payer: 'customerId' }, action: 'delete' } },
    });
    expect(JSON.stringify(declaration)).not.toMatch(/s3cret|worker/);
  });

  it('is checked by the compiler: identifiers that nobody declared, a retention without a basis, a mask without values', () => {
    const delivered = (customer: TableRule<'customerId'>) => customer;
    delivered({ key: { customer_id: 'customerId' }, action: 'delete' });
    // @ts-expect-error a misspelt identifier
    delivered({ key: { customer_id: 'custmerId' }, action: 'delete' });
    // @ts-expect-error neither key nor through
    delivered({ action: 'delete' });
    // @ts-expect-error both key and through
    delivered({ key: { customer_id: 'customerId' }, through: 'visit', action: 'delete' });
    // @ts-expect-error retained without keep
    delivered({ key: { customer_id: 'customerId' }, action: 'retain' });
    // @ts-expect-error retained without a basis
    delivered({ key: { customer_id: 'customerId' }, action: 'retain', keep: { from: 'day', for: 'P10Y' } });
    // @ts-expect-error no duration
    delivered({ through: 'invoice', action: 'retain', keep: { basis: 'tax law', from: 'day', for: '10 years' } });
    // @ts-expect-error anonymized without set
    delivered({ key: { customer_id: 'customerId' }, action: 'anonymize' });
    // @ts-expect-error deleted and set
    delivered({ key: { customer_id: 'customerId' }, action: 'delete', set: { name: null } });

    config({
      identifiers: { customerId: {}, email: {} },
      targets: {
        shop: postgres({ url, tables: { customer: { key: { customer_id: 'customerId' }, action: 'delete' } } }),
      },
    });
    config({
      identifiers: { customerId: {}, email: {} },
      targets: {
        // @ts-expect-error the configuration does not declare this identifier
        shop: postgres({ url, tables: { customer: { key: { customer_id: 'custmerId' }, action: 'delete' } } }),
      },
    });
  });

  it.each([
    [{ url, tables: {} }, 'tables: found none, expected at least one table with a rule'],
    [
      { url, tables: { a: { key: { id: 'id' }, action: 'remove' } } },
      'tables.a.action: found "remove", expected "delete", "anonymize" or "retain"',
    ],
    [{ url, tables: { a: { key: {}, action: 'delete' } } }, 'tables.a.key: found {  }, expected at least one entry'],
    [{ url, tables: { a: { action: 'delete' } } }, 'tables.a: found { action }, expected either key or through'],
    [
      { url, tables: { a: { key: { id: 'id' }, action: 'retain', keep: { basis: ' ', from: 'day', for: 'P1Y' } } } },
      'tables.a.keep.basis: found " ", expected at least 1 characters',
    ],
    [
      { url, tables: { a: { key: { id: 'id' }, action: 'retain', keep: { basis: 'law', from: 'day', for: '10Y' } } } },
      'tables.a.keep.for: found "10Y", expected an ISO 8601 duration',
    ],
    [
      { url, tables: { a: { key: { id: 'id' }, action: 'retain', keep: { basis: 'law', from: 'day', for: 'P0D' } } } },
      'tables.a.keep.for: found "P0D"',
    ],
    [
      { url, schemas: { b: { a: [{ key: { id: 7 }, action: 'delete' }] } } },
      'schemas.b.a.0.key.id: found 7, expected string',
    ],
    [{ url, tables: { a: { key: { id: 'id' }, action: 'delete' } }, fences: 'x' }, 'expected no "fences"'],
    [
      { url, tables: { a: { key: { id: 'id' }, action: 'delete', keep: {} } } },
      'tables.a: found { key, action, keep }, expected no "keep"',
    ],
    [
      {
        url,
        tables: { 'b.a': { key: { id: 'id' }, action: 'delete' } },
        schemas: { b: { a: { key: { id: 'id' }, action: 'delete' } } },
      },
      'found the place "b.a" twice',
    ],
  ])('names the field, what was found and what is expected: %#', (options, expected) => {
    expect(refusalOf(options)).toContain(expected);
  });

  it('WF-2: never shows the url', () => {
    const tables = { a: { key: { id: 'id' }, action: 'delete' } };
    for (const bad of [
      '',
      42,
      'postgres://worker:s3cret@:port/x',
      'http:/worker:s3cret',
      'postgres://worker:s3cret@[::1/x',
    ]) {
      let message = '';
      try {
        postgres({ url: bad, tables } as unknown as PostgresOptions);
      } catch (error) {
        message = `${(error as Error).message} ${String((error as Error).cause)}`;
      }
      expect(message).not.toContain('s3cret');
    }
  });

  it('can be declared without a url, and then says so when it is opened', () => {
    const declaration = postgres({ url: undefined, tables: { a: { key: { id: 'id' }, action: 'delete' } } });
    expect(declaration.plan.server).toBeNull();
    expect(() => declaration.open('shop')).toThrow('Target "shop" has no url');
  });
});
