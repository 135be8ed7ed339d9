/** Five stages that do nothing, so that only the engine's own work is measured. */
import { inventoryDigest } from '../../dist/evidence/inventory-digest.js';

export const STAGES = ['one', 'two', 'three', 'four', 'five'];
export const INVENTORY = { version: 1, places: [{ place: 'nothing', count: 0 }] };

export const DIGEST = digest(INVENTORY);

function digest(inventory) {
  return inventoryDigest({ schemaVersion: 1, workflow: 'no-op', workflowVersion: 1, commitment: 'nobody', inventory });
}

const handler = (runs) =>
  Promise.resolve({
    outcomes: new Map(runs.map(({ request }) => [request.id, { kind: 'completed', result: { rows: 0 } }])),
  });

export const noOp = {
  name: 'no-op',
  version: 1,
  runBy: 'worker',
  visits: new Set(),
  handlers: Object.fromEntries(STAGES.map((stage) => [stage, handler])),
  digest: (_request, inventory) => digest(inventory),
  policy: {
    check: () => undefined,
    mayCancel: () => true,
    decide: ({ history }) => {
      const stage = STAGES[history.length];
      const transition = { decision: stage === undefined ? 'finish' : 'next' };
      if (stage === undefined) return { kind: 'end', status: 'completed', transition };
      return { kind: 'enter', stage, place: null, inputs: {}, transition };
    },
  },
};
