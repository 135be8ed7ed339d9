/** `expunge demo`: one customer of a small shop is deleted from its stores, by a worker that is killed half-way. */
import { fork } from 'node:child_process';
import { mkdtemp, readdir, readFile, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Client, createClient } from '../client/client.js';
import { loadConfig } from '../config/load-config.js';
import { verifyReceipts } from '../evidence/verify-receipts.js';
import { ExpungeError, type ErrorOutcome } from '../observe/expunge-error.js';
import { KEY_FILE_NAMES } from '../keys/write-key-files.js';
import { writeDemoConfig } from './demo-config.js';
import { buildShop, CUSTOMERS } from './demo-shop.js';
import { findDrivers, missingDrivers, storesOf } from './drivers.js';
import type { WorkerMessage } from './worker-process.js';

export interface DemoOptions {
  /** Leaves the shop behind, so that the next customer can be deleted by hand. */
  readonly keep: boolean;
  /** One line for whoever watches. */
  readonly tell: (line: string) => void;
}

export interface DemoReport {
  readonly directory: string;
  readonly kept: boolean;
  readonly request_id: string;
  readonly killed_pid: number;
  /** From the killed process's wait status. */
  readonly killed_signal: string;
  readonly status: string;
  readonly receipts_verified: number;
}

interface Killed {
  readonly pid: number;
  readonly signal: string;
}

/** The demo did not go as it should: a fault of the product or of the machine. */
export class DemoError extends ExpungeError {
  readonly code = 'DEMO_FAILED';
  readonly outcome: ErrorOutcome = 'failed';
}

const CUSTOMER = '5';

export async function runDemo({ keep, tell }: DemoOptions): Promise<DemoReport> {
  const directory = await realpath(await mkdtemp(join(tmpdir(), 'expunge-demo-')));
  try {
    const drivers = findDrivers();
    tell(`A shop in ${directory}: ${CUSTOMERS} customers in ${storesOf(drivers)}`);
    for (const line of missingDrivers(drivers)) tell(line);
    const config = await writeDemoConfig(directory, drivers);
    await buildShop(directory, drivers);
    const requestId = await submitAndApprove(config, tell);
    const killed = await killHalfWay(config, requestId, tell);
    return await resumeAndVerify({ directory, config, requestId, killed, keep, tell });
  } finally {
    if (!keep) await rm(directory, { recursive: true, force: true });
  }
}

async function submitAndApprove(file: string, tell: DemoOptions['tell']): Promise<string> {
  const client = await open(file);
  try {
    const { id, inventory, inventory_digest } = await client.submit(
      { customerId: CUSTOMER },
      { requestedBy: 'operator-a', reasonCode: 'DEMO' },
    );
    const places = inventory.targets.flatMap((target) =>
      target.places.map((place) => `${place.count} in ${place.place}`),
    );
    tell(`Request ${id} for customer ${CUSTOMER}: ${places.join(', ')}`);
    await client.requests.approve({ requestId: id, approvedBy: 'operator-b', inventoryDigest: inventory_digest });
    tell(`A second person approved the inventory by its digest, ${inventory_digest.slice(0, 12)}…`);
    return id;
  } finally {
    await client.close();
  }
}

/** Kills the worker between two stores: the databases are done, and the files have just begun. */
async function killHalfWay(file: string, requestId: string, tell: DemoOptions['tell']): Promise<Killed> {
  const script = fileURLToPath(new URL('./worker-process.js', import.meta.url));
  const worker = fork(script, [file, requestId], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  const pid = worker.pid ?? 0;
  tell(`Worker ${pid} runs it`);
  worker.on('message', ({ stage, target, done }: WorkerMessage) => {
    if (done) tell(`  ${stage}${target === null ? '' : ` ${target}`}: done`);
    else if (stage === 'erase' && target === 'generated-artifacts') worker.kill('SIGKILL');
  });
  const [code, signal] = await new Promise<[number | null, NodeJS.Signals | null]>((resolve) => {
    worker.on('exit', (...status) => {
      resolve(status);
    });
  });
  if (signal === null)
    throw new DemoError(`The worker ended with exit code ${code} before it could be killed: please report it.`);
  tell(`Worker ${pid} was killed half-way: its wait status says ${signal}`);
  return { pid, signal };
}

interface Resuming extends DemoOptions {
  readonly directory: string;
  readonly config: string;
  readonly requestId: string;
  readonly killed: Killed;
}

async function resumeAndVerify({ directory, config, requestId, killed, keep, tell }: Resuming): Promise<DemoReport> {
  const client = await open(config);
  try {
    await refuseLateJob(client, tell);
    const end = await client.requests.run(requestId, {
      executorId: `demo-worker-${process.pid}`,
      signal: new AbortController().signal,
      observer: {
        stageSaved: ({ stage, target_community_id }) => {
          tell(`  ${stage}${target_community_id === null ? '' : ` ${target_community_id}`}: done`);
        },
      },
    });
    const { request } = await client.requests.show(requestId);
    if (end.kind !== 'ended')
      throw new DemoError(`Request ${requestId} is ${request.status} after it was resumed: please report it.`);
    const receipts = await verify(directory, await client.exportReceipts(requestId));
    tell(`${receipts} signed receipts verified with the public key alone, off-line`);
    await lookAround(directory, tell);
    tell(
      keep
        ? `Everything is left in ${directory}; the next customer by hand:`
        : 'With --keep the shop stays, for deleting the next customer by hand',
    );
    if (keep) tell(`  cd ${directory} && npx expunge submit --subject customerId=6 --requested-by operator-a`);
    return {
      directory,
      kept: keep,
      request_id: requestId,
      killed_pid: killed.pid,
      killed_signal: killed.signal,
      status: request.status,
      receipts_verified: receipts,
    };
  } finally {
    await client.close();
  }
}

/** What every writer asks before it works: the registry knows already, although the worker is dead and files are left. */
async function refuseLateJob(client: Client, tell: DemoOptions['tell']): Promise<void> {
  const { status } = await client.status({ customerId: CUSTOMER });
  if (status !== 'DELETED')
    throw new DemoError(`The registry answers ${status} for a customer whose deletion has begun: please report it.`);
  tell(`A late export job for customer ${CUSTOMER} asks first, is told ${status}, and writes nothing`);
}

async function verify(directory: string, exported: string): Promise<number> {
  const keys: unknown = JSON.parse(await readFile(join(directory, 'keys', KEY_FILE_NAMES.verification), 'utf8'));
  const { verified, receipts, findings } = await verifyReceipts(exported, keys);
  if (verified) return receipts;
  throw new DemoError(`The receipts do not verify (${findings.map(({ code }) => code).join(', ')}): please report it.`);
}

async function lookAround(directory: string, tell: DemoOptions['tell']): Promise<void> {
  const exports = await readdir(join(directory, 'artifacts', 'customers'));
  if (exports.includes(CUSTOMER))
    throw new DemoError(`The export of customer ${CUSTOMER} is still there: please report it.`);
  tell(`The other ${exports.length} customers have all their files`);
}

async function open(file: string): Promise<Client> {
  const { config } = await loadConfig({ file, env: {} });
  return createClient(config);
}
