/** The demo's worker: a process of its own, so that it can really be killed. Tells its parent how far it is. */
import { createClient } from '../client/client.js';
import { loadConfig } from '../config/load-config.js';
import { createLog } from '../observe/log.js';

/** What the worker says to its parent. */
export interface WorkerMessage {
  readonly stage: string;
  readonly target: string | null;
  readonly done: boolean;
}

async function main(file: string, requestId: string): Promise<void> {
  const { config } = await loadConfig({ file });
  const client = await createClient(config, { log: createLog() });
  const tell = (message: WorkerMessage): void => {
    process.send?.(message);
  };
  await client.requests.run(requestId, {
    executorId: `demo-worker-${process.pid}`,
    signal: new AbortController().signal,
    observer: {
      stageStarted: ({ stage, target_community_id }) => {
        tell({ stage, target: target_community_id, done: false });
      },
      stageSaved: ({ stage, target_community_id }) => {
        tell({ stage, target: target_community_id, done: true });
      },
    },
  });
  await client.close();
  process.disconnect();
}

const [file, requestId] = process.argv.slice(2);
if (file !== undefined && requestId !== undefined && process.send !== undefined) {
  main(file, requestId).catch((error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exit(1);
  });
}
