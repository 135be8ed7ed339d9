import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { DatabaseUnavailableError } from '../storage/storage-error.js';
import { bisect, bisectStatement } from './bisect.js';
import { faultOf, sendAgain } from './database-fault.js';

const nobodys = () => false;

/** Fails for any set that holds one of `bad`, and counts its calls. */
function applying(bad: ReadonlySet<number>) {
  const calls: (readonly number[])[] = [];
  const apply = async (items: readonly number[]) => {
    calls.push(items);
    const found = items.find((item) => bad.has(item));
    if (found !== undefined) throw new Error(`bad ${found}`);
    return items;
  };
  return { calls, apply };
}

function sqlError(code: string): Error {
  return Object.assign(new Error('the driver says something about jane@example.com'), { code });
}

describe('bisect', () => {
  test('one call where all is well, none for nothing', async () => {
    const { calls, apply } = applying(new Set());
    expect(await bisect([1, 2, 3], apply, nobodys)).toEqual({ results: [[1, 2, 3]], failed: [] });
    expect(await bisect([], apply, nobodys)).toEqual({ results: [], failed: [] });
    expect(calls).toHaveLength(1);
  });

  test('finds every bad item and applies every other one once, with at most two calls an item', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(fc.nat(200), { maxLength: 60 }),
        fc.array(fc.nat(200)),
        async (items, badOnes) => {
          const bad = new Set(badOnes);
          const { calls, apply } = applying(bad);
          const { results, failed } = await bisect(items, apply, nobodys);
          expect(results.flat()).toEqual(items.filter((item) => !bad.has(item)));
          expect(failed.map(({ item }) => item)).toEqual(items.filter((item) => bad.has(item)));
          for (const { item, error } of failed) expect(error).toEqual(new Error(`bad ${item}`));
          expect(calls.length).toBeLessThanOrEqual(2 * items.length);
        },
      ),
    );
  });

  test('what is nobody’s fault is thrown at once', async () => {
    let calls = 0;
    const apply = async () => {
      calls += 1;
      throw new DatabaseUnavailableError('away');
    };
    await expect(bisectStatement([1, 2, 3, 4], apply)).rejects.toThrow('away');
    expect(calls).toBe(1);
  });
});

describe('bisectStatement', () => {
  test.each(['53100', '53200', '57014', '58030', '25006', '42501', 'XX000'])(
    'SQLSTATE %s says nothing about a row: it is thrown, and no row is held responsible',
    async (code) => {
      await expect(bisectStatement([1, 2], () => Promise.reject(sqlError(code)))).rejects.toMatchObject({ code });
    },
  );

  test.each(['22003', '22P05', '23503', '23505', '23514', '54001', 'P0001', '42P01'])(
    'SQLSTATE %s is a row’s: the one that has it alone is found',
    async (code) => {
      const { failed, results } = await bisectStatement([1, 2, 3], async (items) => {
        if (items.includes(2)) throw sqlError(code);
        return items;
      });
      expect(failed).toMatchObject([{ item: 2, error: { code } }]);
      expect(results.flat()).toEqual([1, 3]);
    },
  );

  test('a deadlock is tried again, for all together', async () => {
    const calls: number[] = [];
    const { results, failed } = await bisectStatement([1, 2, 3], async (items) => {
      calls.push(items.length);
      if (calls.length < 3) throw sqlError('40P01');
      return items;
    });
    expect(calls).toEqual([3, 3, 3]);
    expect({ results, failed }).toEqual({ results: [[1, 2, 3]], failed: [] });
  });

  test('a lock that is never to be had is given up after five attempts', async () => {
    let calls = 0;
    const send = () => {
      calls += 1;
      return Promise.reject(sqlError('55P03'));
    };
    await expect(sendAgain(send)).rejects.toMatchObject({ code: '55P03' });
    expect(calls).toBe(5);
  });
});

test('what is no database’s error is the row’s: a fault of a program does not stop the others', () => {
  expect(faultOf(new TypeError('x'))).toBe('rows');
  expect(faultOf('text')).toBe('rows');
  expect(faultOf(null)).toBe('rows');
  expect(faultOf(Object.assign(new Error('x'), { code: 'EPIPE' }))).toBe('rows');
});
