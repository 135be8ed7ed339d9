/**
 * The lives of requests, as somebody leads them who can be interrupted anywhere and begins again: the same steps for the test,
 * which has the product's sources, and for a process of its own, which has the built package.
 */

import { twoStores } from './two-stores.mjs';

/** @typedef {'user-deletion' | 'erasure' | 'erasure-returned' | 'erasure-cancelled'} Life */

/**
 * What is used of a client.
 * @typedef {{
 *   submit(subject: Record<string, string>, options: { requestedBy: string, idempotencyKey: string }): Promise<Submitted>,
 *   submitUserDeletion(input: { target: string, requestedBy: string }): Promise<Submitted>,
 *   requests: {
 *     show(id: string): Promise<{ request: { status: string }, stages: readonly { stage: string }[] }>,
 *     approve(input: { requestId: string, approvedBy: string, inventoryDigest: string }): Promise<unknown>,
 *     cancel(input: { requestId: string, by: string, reason: string }): Promise<unknown>,
 *     run(id: string, options: { executorId: string, signal: AbortSignal }): Promise<unknown>,
 *     work(options: { executorId: string, signal: AbortSignal, once: boolean, concurrency: number }): Promise<void>,
 *   },
 * }} LivingClient
 * @typedef {{ id: string, inventory_digest: string }} Submitted
 */

/**
 * @typedef {object} Begun
 * @property {Life} life
 * @property {number} customer
 * @property {string | null} id - of a request that is there already, as an operator sees it in a list.
 * @property {boolean} again - whether somebody was here before, and was interrupted.
 */

/**
 * How to reach everything, and as whom.
 * @typedef {object} Way
 * @property {import('./two-stores.mjs').Where} where
 * @property {unknown} keys - the worker's key file.
 * @property {string} asideUrl - for renewals of leases, which come with time and not with work.
 * @property {number} answerMs - how long Expunge's own database may take for an answer, in milliseconds.
 */

/**
 * What of the product it takes; the sources' and the built package's types are not each other's.
 * @typedef {{
 *   defineConfig: (config: any) => any, postgres: (options: any) => object, files: (options: any) => object,
 *   openPostgres: (options: { url: string, answerTimeoutMs?: number }) => { aside: object, close(): Promise<void> },
 *   parseKeyRing: (file: any, source: string) => any,
 *   Client: new (config: any, database: any, ring: any, log: any) => LivingClient & { close(): Promise<void> },
 * }} Product
 */

/**
 * A client of its own: nothing that it knows outlives it.
 * @param {Product} product
 * @param {Way} way
 * @param {unknown} log
 */
export function openClient(product, { where, keys, asideUrl, answerMs }, log) {
  const own = product.openPostgres({ url: where.ownUrl, answerTimeoutMs: answerMs });
  const quiet = product.openPostgres({ url: asideUrl });
  const database = {
    ...own,
    aside: quiet.aside,
    close: async () => {
      await Promise.all([own.close(), quiet.close()]);
    },
  };
  return new product.Client(twoStores(product, where), database, product.parseKeyRing(keys, 'worker'), log);
}

/**
 * Leads a life as far as it goes now.
 * @param {LivingClient} client
 * @param {Begun} begun
 */
export async function live(client, begun) {
  const options = { executorId: `process-${process.pid}`, signal: new AbortController().signal };
  if (begun.life === 'user-deletion') {
    const id = begun.id ?? (await userDeletion(client, begun.customer));
    await approve(client, id, begun.again);
    await client.requests.run(id, options);
    return;
  }
  if (begun.life === 'erasure') {
    const { id } = await submit(client, begun.customer);
    await approve(client, id, begun.again);
  }
  if (begun.life === 'erasure-cancelled' && begun.id !== null) await cancel(client, begun.id, begun.again);
  await client.requests.work({ ...options, once: true, concurrency: 1 });
}

/**
 * @param {LivingClient} client
 * @param {number} customer
 */
export function submit(client, customer) {
  return client.submit({ customerId: String(customer) }, { requestedBy: 'anna', idempotencyKey: `key of ${customer}` });
}

/**
 * @param {LivingClient} client
 * @param {number} customer
 */
async function userDeletion(client, customer) {
  const { id } = await client.submitUserDeletion({ target: `demo:${customer}`, requestedBy: 'anna' });
  return id;
}

/**
 * @param {LivingClient} client
 * @param {string} id
 * @param {boolean} again
 */
async function approve(client, id, again) {
  const { request } = await client.requests.show(id);
  const inventoryDigest = /** @type {{ inventory_digest?: string | null }} */ (request).inventory_digest ?? '';
  if (again && request.status !== 'submitted') return;
  await client.requests.approve({ requestId: id, approvedBy: 'ben', inventoryDigest });
}

/**
 * @param {LivingClient} client
 * @param {string} id
 * @param {boolean} again
 */
async function cancel(client, id, again) {
  const { request, stages } = await client.requests.show(id);
  // It has been carried out, or is being.
  if (again && (request.status === 'cancelled' || stages.some(({ stage }) => stage === 'ungate'))) return;
  await client.requests.cancel({ requestId: id, by: 'anna', reason: 'asked for by mistake' });
}
