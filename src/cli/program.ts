/** Puts the commands together and runs the one that was asked for. */
import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { addCommand, type CommandSpec } from './command.js';
import { approve } from './commands/approve.js';
import { cancel } from './commands/cancel.js';
import { demo } from './commands/demo.js';
import { hold } from './commands/hold.js';
import { init } from './commands/init.js';
import { list } from './commands/list.js';
import { migrate } from './commands/migrate.js';
import { receiptsExport } from './commands/receipts-export.js';
import { receiptsVerify } from './commands/receipts-verify.js';
import { revise } from './commands/revise.js';
import { run } from './commands/run.js';
import { show } from './commands/show.js';
import { standingApprovalsApprove } from './commands/standing-approvals-approve.js';
import { standingApprovalsList } from './commands/standing-approvals-list.js';
import { standingApprovalsPropose } from './commands/standing-approvals-propose.js';
import { standingApprovalsRevoke } from './commands/standing-approvals-revoke.js';
import { status } from './commands/status.js';
import { submit } from './commands/submit.js';
import { unblock } from './commands/unblock.js';
import { userDeletionsList } from './commands/user-deletions-list.js';
import { userDeletionsRun } from './commands/user-deletions-run.js';
import { userDeletionsSubmit } from './commands/user-deletions-submit.js';
import { worker } from './commands/worker.js';
import { reportError } from './report-error.js';

/** Runs one command line. Never throws; what went wrong is on standard error. @returns the exit code. */
export async function runProgram(args: readonly string[]): Promise<number> {
  let exitCode = 0;
  const program = buildProgram((code) => {
    exitCode = code;
  });
  try {
    await program.parseAsync([...args], { from: 'user' });
    return exitCode;
  } catch (error) {
    return reportError(error);
  }
}

function buildProgram(settle: (exitCode: number) => void): Command {
  const program = new Command('expunge')
    .description('Deletes a person from everything a company runs: every copy gone, nothing comes back, and a proof.')
    .version(version(), '--version', 'print the version')
    .helpOption('--help', 'explain a command')
    .exitOverride()
    // Errors are printed in one place, `report-error.ts`.
    .configureOutput({ outputError: () => undefined });
  const add = (parent: Command, heading: string, ...specs: readonly CommandSpec<never>[]): void => {
    const isTraining = parent.name() === 'user-deletions';
    for (const spec of specs) addCommand(parent, spec as CommandSpec, isTraining, settle).helpGroup(heading);
  };
  add(program, 'Setting up:', demo, init, migrate);
  add(program, 'Deletion requests:', submit, approve, run, worker, list, show);
  const standing = program
    .command('standing-approvals')
    .description('approve, as two people, requests that applications will submit')
    .helpGroup('Deletion requests:');
  add(
    standing,
    'Commands:',
    standingApprovalsPropose,
    standingApprovalsApprove,
    standingApprovalsRevoke,
    standingApprovalsList,
  );
  add(program, 'Orders:', cancel, hold, unblock, revise);
  add(program, 'Evidence:', status);
  const receipts = program.command('receipts').description('export and verify receipts').helpGroup('Evidence:');
  add(receipts, 'Commands:', receiptsExport, receiptsVerify);
  const training = program
    .command('user-deletions')
    .description('learn and test the whole process on demo: targets, which nothing real stands behind')
    .helpGroup('Training:');
  add(training, 'Commands:', userDeletionsSubmit, approve, userDeletionsRun, userDeletionsList, show);
  add(training, 'Orders:', cancel, hold, unblock);
  program.addHelpText('after', exitCodes);
  return program;
}

const exitCodes = `
Exit codes:
  0 done   1 the work failed   2 refused, nothing changed   64 wrong usage   69 the database cannot be reached
  75 to be continued   130, 143 stopped by a signal

Standard output carries the result alone: JSON where it is no terminal or with --json.`;

function version(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
