import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../storage/json.js';
import { NotPlainJsonError } from '../storage/plain-json.js';
import {
  commitment,
  inventoryDigest,
  matchesCommitment,
  newSalt,
  type InventoryDigestInput,
} from './inventory-digest.js';
import { planDigest } from './plan-digest.js';

const INPUT: InventoryDigestInput = {
  schemaVersion: 1,
  workflow: 'user-deletion',
  workflowVersion: 1,
  commitment: 'demo:alice',
  inventory: { version: 1, communities: ['b', 'c'], nested: { x: 1, y: 2 } },
};

describe('EX-25: the inventory digest', () => {
  it('is SHA-256 over the canonical JSON of everything, in lower-case hex', () => {
    const text =
      '{"commitment":"demo:alice","domain":"expunge/inventory-digest/1",' +
      '"inventory":{"communities":["b","c"],"nested":{"x":1,"y":2},"version":1},' +
      '"schema_version":1,"workflow":"user-deletion","workflow_version":1}';
    expect(inventoryDigest(INPUT)).toBe(createHash('sha256').update(text).digest('hex'));
    expect(inventoryDigest(INPUT)).toMatch(/^[0-9a-f]{64}$/);
  });

  it('does not depend on the order of keys', () => {
    const inventory = { nested: { y: 2, x: 1 }, communities: ['b', 'c'], version: 1 };
    expect(inventoryDigest({ ...INPUT, inventory })).toBe(inventoryDigest(INPUT));
  });

  it.each<[string, Partial<InventoryDigestInput>]>([
    ['schema version', { schemaVersion: 2 }],
    ['workflow', { workflow: 'erasure' }],
    ['workflow version', { workflowVersion: 2 }],
    ['subject', { commitment: 'demo:bob' }],
    ['inventory', { inventory: { version: 1, communities: ['b', 'c'], nested: { x: 1, y: 3 } } }],
    ['order of an array', { inventory: { version: 1, communities: ['c', 'b'], nested: { x: 1, y: 2 } } }],
    ['absence of a field', { inventory: { version: 1, communities: ['b', 'c'] } }],
  ])('changes with the %s', (_name, change) => {
    expect(inventoryDigest({ ...INPUT, ...change })).not.toBe(inventoryDigest(INPUT));
  });

  it('is computed again from what a JSON column gives back, without the salt', () => {
    const committed = commitment(newSalt(), 'ref1.k.x');
    const inventory: JsonObject = { commitment: committed, counts: [1e21, 0.1, 1e-7], text: 'é😀' };
    const digest = inventoryDigest({ ...INPUT, commitment: committed, inventory });
    const stored = JSON.parse(JSON.stringify(inventory)) as JsonObject & { commitment: string };
    expect(inventoryDigest({ ...INPUT, commitment: stored.commitment, inventory: stored })).toBe(digest);
  });

  it('refuses what is no plain JSON', () => {
    const inventory = { at: new Date(0) } as unknown as JsonObject;
    expect(() => inventoryDigest({ ...INPUT, inventory })).toThrow(NotPlainJsonError);
  });
});

describe('WF-6: the salted commitment', () => {
  it('binds to one reference under one salt', () => {
    const [salt, other] = [newSalt(), newSalt()];
    const committed = commitment(salt, 'ref1.k.one');
    expect(committed).toMatch(/^[0-9a-f]{64}$/);
    expect(matchesCommitment(committed, salt, 'ref1.k.one')).toBe(true);
    expect(matchesCommitment(committed, salt, 'ref1.k.two')).toBe(false);
    expect(matchesCommitment(committed, other, 'ref1.k.one')).toBe(false);
    expect(matchesCommitment('', salt, 'ref1.k.one')).toBe(false);
    expect(matchesCommitment('é'.repeat(32), salt, 'ref1.k.one')).toBe(false);
  });

  it('has a salt of 32 bytes, a new one each time', () => {
    expect(Buffer.from(newSalt(), 'base64url')).toHaveLength(32);
    expect(newSalt()).not.toBe(newSalt());
  });
});

describe('WF-6: the plan digest', () => {
  const declaration = {
    kind: 'postgres',
    handlerVersion: 1,
    plan: { tables: { customer: { key: 'id' } }, fence: null },
  };

  it('covers kind, handler version and the whole plan, and nothing of a key order', () => {
    const digest = planDigest(declaration);
    expect(digest).toMatch(/^[0-9a-f]{64}$/);
    expect(planDigest({ ...declaration, plan: { fence: null, tables: { customer: { key: 'id' } } } })).toBe(digest);
    expect(planDigest({ ...declaration, kind: 'mysql' })).not.toBe(digest);
    expect(planDigest({ ...declaration, handlerVersion: 2 })).not.toBe(digest);
    expect(planDigest({ ...declaration, plan: { tables: { customer: { key: 'no' } }, fence: null } })).not.toBe(digest);
  });

  it('leaves out what a declaration has besides: functions are no part of a plan', () => {
    expect(planDigest({ ...declaration, ...{ open: () => null, identifiers: ['a'] } })).toBe(planDigest(declaration));
  });
});
