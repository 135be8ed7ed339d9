import { readFile } from 'node:fs/promises';
import { requestId } from '../arguments.js';
import { type CommandSpec, optional, required } from '../command.js';
import { EXIT } from '../exit-codes.js';
import { FileError, readInput } from '../files.js';
import { indent, pairs } from '../table.js';

interface Options {
  readonly keys: string;
  readonly request?: string;
}

/** WF-22: off-line, with the export and the public keys alone. */
export const receiptsVerify: CommandSpec<Options> = {
  usage: 'verify <file>',
  summary: 'verify exported receipts with the public keys alone; - reads standard input',
  options: [
    required('--keys <file>', 'the public verification keys, receipts.jwks.json'),
    optional('--request <id>', 'the request that the receipts should be of'),
  ],
  examples: ['verify receipts.json --keys receipts.jwks.json'],
  async run([file], { keys, request }, { output }) {
    const expected = request === undefined ? {} : { requestId: requestId(request) };
    const { verifyReceipts } = await import('../../evidence/verify-receipts.js');
    const report = await verifyReceipts(await readInput(file ?? '-'), await readKeys(keys), expected);
    output.result(report, (style) => {
      const verdict = report.verified ? style('green', 'genuine and complete') : style('red', 'NOT VERIFIED');
      const summary = pairs([
        ['verdict', verdict],
        ['request', report.chain?.requestId ?? null],
        ['receipts', String(report.receipts)],
      ]);
      const findings = report.findings.map(({ code, message }) => `${code}: ${message}`).join('\n');
      return findings === '' ? summary : `${summary}\n${indent(findings)}`;
    });
    return report.verified ? EXIT.done : EXIT.failed;
  },
};

async function readKeys(path: string): Promise<unknown> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    throw new FileError('read', path, error);
  });
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null; // The verifier says what is wrong with them.
  }
}
