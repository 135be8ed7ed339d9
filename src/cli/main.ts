#!/usr/bin/env node
/** The command line. What it can do is in `commands/`, one file each. */
import { ignoreBrokenPipes } from './output.js';
import { runProgram } from './program.js';

ignoreBrokenPipes();
void runProgram(process.argv.slice(2)).then((exitCode) => {
  // Not process.exit(): what was printed into a pipe may still have to be read.
  process.exitCode = exitCode;
});
