import { expect, test } from 'vitest';
import { openPGlite } from '../storage/pglite/pglite-database.js';
import { migrate } from '../storage/migrations/migrate.js';
import { createLog } from '../observe/log.js';
import { DeletionRecord } from './record.js';
import { userDeletion } from '../workflows/user-deletion/workflow.js';
import { submitUserDeletion } from './user-deletions.js';

test('OP-5: five steps', async () => {
  const database = openPGlite();
  await migrate(database);
  const record = new DeletionRecord(database, createLog(), [userDeletion()]);
  const { id, inventory_digest } = await submitUserDeletion(database, { target: 'demo:alpha', requestedBy: 'a' });
  await record.approve({ requestId: id, approvedBy: 'b', inventoryDigest: inventory_digest });
  for (let step = 1; step <= 5; step += 1) {
    const end = await record.run(id, { executorId: 'x', signal: new AbortController().signal, budget: 1 });
    console.log(end);
  }
  const shown = await record.show(id);
  console.log(JSON.stringify(shown, null, 1));
  expect(shown.request.status).toBe('completed');
  await database.close();
});
