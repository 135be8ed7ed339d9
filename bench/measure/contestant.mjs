/** The frame of a contestant's process: prepares untimed, measures the work, checks it, and answers. */
import { readFileSync } from 'node:fs';
import { readServer } from './server.mjs';

/**
 * @param prepare - gets the work and answers a context.
 * @param run - the timed part; answers how many units of work were done.
 * @param facts - answers what else is to be known, before the check.
 * @param check - throws where the work was not done.
 */
export async function contestant({ prepare, run, check, close, facts }) {
  const input = JSON.parse(process.argv[2]);
  const context = await prepare(input);
  const before = await readServer(input.url);
  const cpu = process.cpuUsage();
  const began = performance.now();
  const units = await run(context, input);
  const seconds = (performance.now() - began) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  const after = await readServer(input.url);
  const found = (await facts?.(context, input)) ?? null;
  await check(context, input);
  await close?.(context, input);
  process.send({
    units,
    seconds,
    cpuSeconds: (user + system) / 1e6,
    walBytes: after.walBytes - before.walBytes,
    commits: after.commits - before.commits,
    serverCpuSeconds: after.cpuSeconds === null ? null : Math.max(0, after.cpuSeconds - (before.cpuSeconds ?? 0)),
    statements: context?.statements?.() ?? null,
    memoryMb: peakMemoryMb(),
    facts: found,
  });
  process.disconnect();
}

/** The largest resident set that the process ever had; the kernel's own figure where there is one. */
function peakMemoryMb() {
  try {
    const line = /VmHWM:\s+(\d+) kB/.exec(readFileSync('/proc/self/status', 'utf8'));
    if (line !== null) return Math.round(Number(line[1]) / 1024);
  } catch {
    // Not Linux.
  }
  return Math.round(process.resourceUsage().maxRSS / 1024);
}
