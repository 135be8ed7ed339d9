/**
 * Ctrl-C (contract EX-20). The first SIGINT or SIGTERM asks the work to stop and give its ownership back; after 10 s, or at
 * a second signal, the process leaves as it is, and the lease it leaves behind expires.
 */
import type { Log } from '../observe/log.js';

/** How long the work may take to settle after a signal, in milliseconds. */
const GRACE_MS = 10_000;

const exitCodes = { SIGINT: 130, SIGTERM: 143 } as const;
type Signal = keyof typeof exitCodes;

export interface Interruption {
  /** Aborted by the first signal. */
  readonly signal: AbortSignal;
  /** 130 or 143 once a signal came; null before. */
  readonly exitCode: number | null;
  /** Signals do again what they do to any process. */
  dispose(): void;
}

/** Listens from now on. */
export function listenForSignals(log: Log): Interruption {
  const controller = new AbortController();
  let exitCode: number | null = null;
  let grace: NodeJS.Timeout | undefined;
  const leave = (signal: Signal): never => {
    log.error('worker_grace_over', { signal, exitCode: exitCodes[signal] });
    process.exit(exitCodes[signal]);
  };
  const receive = (signal: Signal): void => {
    if (exitCode !== null) leave(signal);
    exitCode = exitCodes[signal];
    log.info('worker_stopping', { signal });
    grace = setTimeout(() => leave(signal), GRACE_MS);
    controller.abort();
  };
  process.on('SIGINT', receive).on('SIGTERM', receive);
  return {
    signal: controller.signal,
    get exitCode() {
      return exitCode;
    },
    dispose() {
      clearTimeout(grace);
      process.off('SIGINT', receive).off('SIGTERM', receive);
    },
  };
}
