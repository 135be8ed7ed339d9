/** `expunge submit --from`: one batch of all who stand in a file. */
import type { BatchSource } from '../client/batch-source.js';
import type { BatchProgress, SubmitManyOptions } from '../client/submit-batch.js';
import { batchLines } from './batch-lines.js';
import { EXIT } from './exit-codes.js';
import type { Output } from './output.js';
import { type Place, withSession } from './session.js';

/** @returns the exit code. */
export function submitFile(
  source: BatchSource,
  { dryRun, ...options }: SubmitManyOptions & { readonly dryRun: boolean },
  output: Output,
  place: Place,
): Promise<number> {
  return withSession(place, async (client) => {
    const watch = output.isWatched ? { onProgress: showProgress(process.stderr) } : {};
    if (dryRun) {
      const lines = await client.checkLines(source, watch);
      output.result({ lines }, () => `${lines} lines can be submitted`);
      output.tell('Nothing was recorded.');
      return EXIT.done;
    }
    const batch = await client.submitLines(source, { ...options, ...watch });
    output.result(batch, (style) => batchLines(batch, style));
    return EXIT.done;
  });
}

/** One line, written over. */
function showProgress(stream: NodeJS.WriteStream): (progress: BatchProgress) => void {
  return ({ phase, lines, of }) => {
    const end = of !== null && lines >= of ? '\n' : '';
    stream.write(`\r  ${phase} ${lines}${of === null ? '' : ` of ${of}`} lines${end}`);
  };
}
