import { describe, expect, test } from 'vitest';
import { RequestRefusedError } from '../../requests/request-error.js';
import type { JsonObject } from '../../storage/json.js';
import {
  buildInventory,
  COMMUNITY_B,
  COMMUNITY_C,
  DemoTargetError,
  digestOf,
  InventoryError,
  readInventory,
} from './inventory.js';

const ID = '01993c1e-7c2a-7b1e-9d3f-2a4b5c6d7e8f';
const built = buildInventory('demo:alpha');

function withCommunities(count: number): JsonObject {
  const id = (index: number) => `00000000-0000-0000-0000-${String(index).padStart(12, '0')}`;
  return {
    ...built,
    communities: Array.from({ length: count }, (_, index) => ({ id: id(index), role: 'participant' })),
  };
}

test('the inventory of a demo: target is version 1, with the communities B and C in this order', () => {
  expect(built).toEqual({
    version: 1,
    workflow: 'user-deletion',
    target: 'demo:alpha',
    communities: [
      { id: COMMUNITY_B, role: 'participant' },
      { id: COMMUNITY_C, role: 'former_participant' },
    ],
  });
});

test.each([
  'alpha',
  'demo:',
  'Demo:alpha',
  'demo:a\u0000b',
  'demo:a\nb',
  'demo:\ud800',
  `demo:${'a'.repeat(201)}`,
  ' demo:a',
])('a target without a demo: name is refused: %j', (target) => {
  expect(() => buildInventory(target)).toThrow(DemoTargetError);
});

describe('readInventory', () => {
  test.each([2, 0, '1', null])('EX-27: version %j is not this program’s, and is no broken inventory', (version) => {
    const read = () => readInventory({ ...built, version }, ID);
    expect(read).toThrow(RequestRefusedError);
    expect(read).toThrow(ID);
  });

  test('EX-12: 1,000 communities are the most', () => {
    expect(readInventory(withCommunities(1000), ID).communities).toHaveLength(1000);
    expect(() => readInventory(withCommunities(1001), ID)).toThrow(InventoryError);
    expect(() => readInventory(withCommunities(1001), ID)).toThrow('more than 1000 communities');
  });

  test.each([
    ['no community', { ...built, communities: [] }, 'communities'],
    ['a community twice', { ...built, communities: [...built.communities, ...built.communities] }, 'communities'],
    ['an unknown role', { ...built, communities: [{ id: COMMUNITY_B, role: 'owner' }] }, 'communities.0.role'],
    ['another workflow', { ...built, workflow: 'erasure' }, 'workflow'],
    ['a real target', { ...built, target: 'shop' }, 'target'],
    ['a key that nobody knows', { ...built, extra: true }, 'its top'],
  ])('EX-25: %s is not valid', (_name, inventory, path) => {
    expect(() => readInventory(inventory as JsonObject, ID)).toThrow(`not valid at ${path}:`);
  });
});

describe('EX-25: digestOf', () => {
  const digest = digestOf(built, ID, 'demo:alpha');

  test('is 64 hexadecimal digits, whatever the order of the keys', () => {
    const turned = Object.fromEntries(Object.entries(built).reverse()) as JsonObject;
    expect(digest).toMatch(/^[0-9a-f]{64}$/);
    expect(digestOf(turned, ID, 'demo:alpha')).toBe(digest);
  });

  test('covers the order of the communities, and every value', () => {
    const turned = { ...built, communities: [...built.communities].reverse() };
    expect(digestOf(turned, ID, 'demo:alpha')).not.toBe(digest);
    expect(digestOf(buildInventory('demo:beta'), ID, 'demo:beta')).not.toBe(digest);
  });

  test('covers the target of the request: the inventory of another one does not have its digest', () => {
    expect(digestOf(built, ID, 'demo:beta')).not.toBe(digest);
    expect(digestOf(built, ID, null)).not.toBe(digest);
  });
});
