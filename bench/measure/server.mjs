/** The PostgreSQL server that everybody is measured on. */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import pg from 'pg';

/** A database of its own for one measurement, dropped afterwards. */
export async function withDatabase(url, work) {
  const name = `expunge_bench_${randomBytes(6).toString('hex')}`;
  await execute(url, `CREATE DATABASE ${name}`);
  try {
    return await work(urlOf(url, name));
  } finally {
    await execute(url, `DROP DATABASE ${name} WITH (FORCE)`);
  }
}

export function urlOf(url, database) {
  const changed = new URL(url);
  changed.pathname = `/${database}`;
  return changed.href;
}

export async function execute(url, sql, values = []) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query(sql, values);
    return rows;
  } finally {
    await client.end();
  }
}

/** What the server did between two readings: bytes of WAL, commits of this database. Nobody else may use the server. */
export async function readServer(url) {
  const [row] = await execute(
    url,
    `SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS wal, (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()) AS commits`,
  );
  return { walBytes: Number(row.wal), commits: Number(row.commits), cpuSeconds: await serverCpuSeconds(url) };
}

/** The kernel counts processor time in hundredths of a second. */
const TICKS_PER_SECOND = 100;

/** Processor time of the sessions of this database, where the server is on this machine; null elsewhere. */
async function serverCpuSeconds(url) {
  const sessions = await execute(
    url,
    'SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
  );
  const ticks = sessions.map(({ pid }) => ticksOf(pid)).filter((each) => each !== null);
  return ticks.length === 0 ? null : ticks.reduce((sum, each) => sum + each, 0) / TICKS_PER_SECOND;
}

function ticksOf(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
    return Number(fields[11]) + Number(fields[12]);
  } catch {
    return null;
  }
}

/** Dirty pages that one contestant leaves are not written during the next one's time. */
export async function settle(url) {
  await execute(url, 'CHECKPOINT');
}

export async function describeServer(url) {
  const [row] = await execute(
    url,
    `SELECT current_setting('server_version') AS version, current_setting('fsync') AS fsync,
            current_setting('synchronous_commit') AS synchronous_commit, current_setting('shared_buffers') AS shared_buffers`,
  );
  return row;
}
