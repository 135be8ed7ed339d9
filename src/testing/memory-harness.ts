/** The harness of the example target: what its author supplies to `describeTarget`. */
import { createHash } from 'node:crypto';
import type { Target, TargetSubject } from '../targets/target.js';
import type { ConformanceOptions, FaultKind, TargetHarness } from './harness.js';
import { MemoryStore } from './memory-store.js';
import { MemoryTarget } from './memory-target.js';

const PLACES = { orders: ['tenantId', 'customerId'], visits: ['tenantId', 'customerId'], mails: ['email'] } as const;
const SESSIONS = { collection: 'sessions', key: ['tenantId', 'customerId'] } as const;
const LOCATOR = { place: 'orders', column: 'invoice' } as const;

/** How a target is opened on the store. */
export type MemoryTargetClass = new (...parameters: ConstructorParameters<typeof MemoryTarget>) => Target;

/** The options with which the kit checks the example target, or one that is derived from it. */
export function memoryConformance(TargetClass: MemoryTargetClass = MemoryTarget): ConformanceOptions {
  return {
    open: async () => harnessOn(new MemoryStore([...Object.keys(PLACES), SESSIONS.collection]), TargetClass),
    identifiers: ['tenantId', 'customerId', 'email'],
    composite: ['tenantId', 'customerId'],
    faults: ['down', 'slow', 'half', 'silent', 'missing'],
  };
}

function harnessOn(store: MemoryStore, TargetClass: MemoryTargetClass): TargetHarness {
  const open = (): Target => new TargetClass('memory', store, { places: PLACES, sessions: SESSIONS });
  const recordsOf = (collection: string, columns: readonly string[], { identifiers }: TargetSubject) =>
    store.records(collection).filter(({ key }) => columns.every((column) => key[column] === identifiers[column]));
  return {
    target: open(),
    reopen: async () => open(),
    plant: async (subject, copies, secret) => {
      for (const [place, columns] of Object.entries(PLACES)) {
        for (let copy = 0; copy < copies; copy += 1) {
          store.insert(place, keyOf(subject, columns), `${secret} ${copy}`);
        }
      }
      return Object.keys(PLACES).map((place) => ({ place, copies }));
    },
    fingerprint: async (subject) => {
      const hash = createHash('sha256');
      for (const [place, columns] of [...Object.entries(PLACES), [SESSIONS.collection, SESSIONS.key] as const]) {
        hash.update(JSON.stringify([place, recordsOf(place, columns, subject)]));
      }
      return hash.digest('hex');
    },
    fault: async (kind: FaultKind) => store.break(kind),
    access: {
      plant: async (subject, sessions) => {
        for (let n = 0; n < sessions; n += 1)
          store.insert(SESSIONS.collection, keyOf(subject, SESSIONS.key), 'session');
      },
      count: async (subject) => recordsOf(SESSIONS.collection, SESSIONS.key, subject).length,
    },
    locate: {
      queries: { invoice: LOCATOR },
      plant: async (subject, count) => {
        const invoices = Array.from({ length: count }, (_, n) => `${Object.values(subject.identifiers).join()}-${n}`);
        for (const invoice of invoices) {
          store.insert(LOCATOR.place, { ...keyOf(subject, PLACES.orders), [LOCATOR.column]: invoice }, 'order');
        }
        return { invoice: invoices };
      },
    },
    close: async () => undefined,
  };
}

function keyOf({ identifiers }: TargetSubject, columns: readonly string[]): Record<string, string> {
  return Object.fromEntries(columns.map((column) => [column, identifiers[column] ?? '']));
}
