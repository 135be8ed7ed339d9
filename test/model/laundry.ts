/** The workflow of the model, as a policy for the product. */
import { createHash } from 'node:crypto';
import type { Workflow } from '../../src/engine/workflow.js';
import type { JsonObject } from '../../src/storage/json.js';
import { completeAll } from '../support/record.js';

type PolicyInput = Parameters<Workflow['policy']['decide']>[0];

export const laundry: Workflow = {
  name: 'laundry',
  version: 1,
  runBy: 'worker',
  visits: new Set(),
  handlers: { gate: completeAll, wash: completeAll, rinse: completeAll, dry: completeAll },
  policy: {
    decide,
    check: () => undefined,
    mayCancel: ({ history: [gate] }) => gate?.status !== 'completed',
  },
  digest: (_request, inventory) => digestOf(inventory),
};

export function digestOf(inventory: JsonObject): string {
  return createHash('sha256')
    .update(JSON.stringify([inventory['version'] ?? null, inventory['revision'] ?? null]))
    .digest('hex');
}

function decide({ history, isCancelled, now }: PolicyInput): ReturnType<Workflow['policy']['decide']> {
  if (isCancelled) return { kind: 'end', status: 'cancelled', transition: { decision: 'cancelled' } };
  const last = history.at(-1);
  const stage = stageAfter(last);
  if (stage === null) return { kind: 'end', status: 'completed', transition: { decision: 'done' } };
  const entered = {
    kind: 'enter',
    stage,
    place: stage === 'wash' || stage === 'rinse' ? 'tub' : null,
    inputs: { step: history.length },
    transition: { decision: 'next' },
  } as const;
  switch (last?.result?.['pause']) {
    case 'waiting':
      return {
        ...entered,
        wait: { status: 'waiting', until: new Date(now.getTime() + 86_400_000), why: 'TUB_IN_USE' },
      };
    case 'blocked':
      return { ...entered, wait: { status: 'blocked', until: null, why: 'TUB_LEAKS' } };
    default:
      return entered;
  }
}

function stageAfter(last: PolicyInput['history'][number] | undefined): string | null {
  switch (last?.stage) {
    case undefined:
      return 'gate';
    case 'gate':
      return 'wash';
    case 'wash':
      return last?.result?.['rinse'] === true ? 'rinse' : 'dry';
    case 'rinse':
      return 'dry';
    default:
      return null;
  }
}
