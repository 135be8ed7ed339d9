/**
 * A process that leads lives of requests with the built package, one after the other, as its parent tells it: started before
 * it is needed, and killed wherever its parent wants. What it logs goes to standard error.
 */
import process from 'node:process';
import { Client } from '../../dist/client/client.js';
import { defineConfig } from '../../dist/config/define-config.js';
import { parseKeyRing } from '../../dist/keys/key-ring.js';
import { createLog } from '../../dist/observe/log.js';
import { openPostgres } from '../../dist/storage/postgres/postgres-database.js';
import { files } from '../../dist/targets/files/index.js';
import { postgres } from '../../dist/targets/postgres/index.js';
import { live, openClient } from './lives.mjs';

const product = { Client, defineConfig, parseKeyRing, openPostgres, files, postgres };

/** @param {{ way: import('./lives.mjs').Way, begun: import('./lives.mjs').Begun }} order */
async function lead({ way, begun }) {
  const client = openClient(product, way, createLog({ level: 'debug' }));
  try {
    await live(client, begun);
    return { refused: null };
  } catch (error) {
    return { refused: String(/** @type {{ code?: unknown }} */ (error).code ?? error) };
  } finally {
    await client.close();
  }
}

process.on('message', (order) => {
  void lead(/** @type {Parameters<typeof lead>[0]} */ (order)).then((answer) => process.send?.(answer));
});
process.send?.({ ready: true });
