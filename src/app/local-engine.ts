import { existsSync } from 'node:fs';
import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { type LineWriter, makeLogger } from '../base/log.ts';
import { LocalCaller } from '../cli/callers.ts';
import type { LocalConnection } from '../cli/host.ts';
import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/load.ts';
import { claimInstanceLock } from '../ledger/sqlite/instance-lock.ts';
import {
  openReadonlyLedger,
  requireCurrentSchema,
  readSchemaVersion,
} from '../ledger/open-readonly.ts';
import { planRestore, restoreLedger } from '../ledger/restore.ts';
import { findLiveHost } from '../ledger/tenant-location.ts';
import { localOwner, type Context } from '../operation/context.ts';
import type { JsonOutput } from '../operation/define.ts';
import { listUnfinished } from '../pipeline/run/waits.service.ts';
import { openInstance, openReadonlyEngine, isolate, openVault } from './instance.ts';
import { readKeyIds } from '../access/vault.service.ts';
import { makeExtras } from './extras.ts';
import { findInstallPaths } from './install-paths.ts';
import { fromTimestamp, type Timestamp } from '../base/clock.ts';
import type { Engine } from '../engine/engine.ts';
import { isTerminal, type Job } from '../job/job.ts';
import type { Branch } from '../pipeline/run/run.ts';

/**
 * Opens the ledger without a service, to change something; it is locked meanwhile. The engine
 * starts only to run something, and then fires no schedules. Cancelling a job must not start queued
 * ones, and running a plugin must not run everything that is due.
 */
export async function openLocalWriter(given: string | undefined): Promise<LocalConnection> {
  const config = loadConfig({ given });
  const version = await readSchemaVersion(config.state);
  if (version !== undefined) requireCurrentSchema(version);
  const { engine, close } = await openInstance(config, quietLog(process.stderr));
  const local = new LocalCaller({
    engine,
    principal: localOwner(),
    submittedBy: 'cli',
    settleLineage: (rootJobId, signal) =>
      settleLineage(engine, rootJobId, limits.jobWaitMs, signal),
  });
  let started: Promise<void> | undefined;
  return {
    caller: {
      async call(name, input) {
        if (name !== 'plugin.run' && name !== 'pipeline.run') return local.call(name, input);
        await (started ??= engine.start('requested'));
        const answer = await local.call(name, input);
        const { root_job_id: rootJobId, timeout_exceeded: isLate, completed_at: end } = answer;
        if (typeof rootJobId !== 'string' || isLate !== false) return answer;
        // The caller waits for the end, so finish the work that follows from it, too.
        if (end !== null) await settleLineage(engine, rootJobId, limits.jobWaitMs);
        const waiting = await listUnfinished(engine.ledger, rootJobId);
        return waiting.length === 0 ? answer : { ...answer, waiting, message: CONTINUES_LATER };
      },
    },
    close,
  };
}

const CONTINUES_LATER =
  'No service is running here. The work continues with the next `ductile system start` or run.';

/** Connection to a ledger that is only read. */
interface LocalReader extends LocalConnection {
  readonly context: Context;
}

/** Opens the ledger to read it, without a lock. */
export async function openLocalReader(given: string | undefined): Promise<LocalReader> {
  const config = loadConfig({ given });
  const ledger = await openReadonlyLedger(config.state);
  // Problems of plugins are part of the results about them, so log nothing.
  const engine = await openReadonlyEngine(config, ledger, quietLog({ write: () => undefined }));
  const context: Context = { engine, principal: localOwner(), submittedBy: 'cli' };
  return { caller: new LocalCaller(context), context, close: () => ledger.close() };
}

/** Replaces the ledger with a backup; no process may be using it. */
export async function restore(
  given: string | undefined,
  from: string,
  dryRun: boolean,
): Promise<JsonOutput> {
  const config = loadConfig({ given });
  if (dryRun) {
    const plan = await planRestore(from, config.state);
    const user = await findUser(config);
    return { dry_run: true, plan: user === undefined ? plan : [...plan, `${user.message}.`] };
  }
  return runWithoutUsers(config, async () => {
    const { previous } = await restoreLedger(from, config.state);
    return { restored_from: from, previous: previous ?? null, paused: true };
  });
}

/** Runs the work while no host uses the ledger. */
export async function runWithoutUsers<T>(config: Config, work: () => Promise<T>): Promise<T> {
  const user = config.state.kind === 'postgres' ? await findUser(config) : undefined;
  if (user !== undefined) throw user;
  return runLocked(config.state, work);
}

/** Finds a process that uses the ledger, as the error that names it. */
async function findUser({ state, service }: Config): Promise<DuctileError | undefined> {
  if (state.kind === 'postgres') {
    const host = await findLiveHost(state, service.reapAfterMs);
    if (host === undefined) return undefined;
    const message = `a process on ${host} uses the schema ${state.schema}`;
    const hint =
      'Stop it on every host. If a process was killed, wait until it is known to be dead.';
    return new DuctileError('INSTANCE_LOCKED', message, { place: 'state.url', hint });
  }
  if (!existsSync(state.dir)) return undefined;
  try {
    await runLocked(state, () => Promise.resolve());
    return undefined;
  } catch (error) {
    if (error instanceof DuctileError && error.code === 'INSTANCE_LOCKED') return error;
    throw error;
  }
}

/** Runs the work while holding the instance lock. */
export async function runLocked<T>(state: Config['state'], work: () => Promise<T>): Promise<T> {
  const lock = state.kind === 'sqlite' ? claimInstanceLock(state.dir) : undefined;
  try {
    return await work();
  } finally {
    lock?.release();
  }
}

function quietLog(destination: LineWriter) {
  return makeLogger({ level: 'error', format: 'text', destination });
}

/**
 * Opens operations that work on the configuration's files, even if the configuration is invalid.
 */
export function openFiles(given: string | undefined): LocalConnection {
  const { plugins } = findInstallPaths();
  const caller = new LocalCaller({
    get engine(): never {
      throw new Error('an operation on files has no engine');
    },
    principal: localOwner(),
    submittedBy: 'cli',
    configFiles: {
      given,
      shippedPlugins: plugins,
      isolation: isolate,
      readKeyIds: (config) => readKeyIds(openVault(config)),
      extras: makeExtras(given),
    },
  });
  return { caller, close: () => Promise.resolve() };
}

/** Shortest and longest pause between two reads. */
const POLL_MS = 20;
const POLL_MS_MAX = 200;
/** Work that isn't claimed for this long waits for something else, such as a limit or a pause. */
const STALL_MS = 2000;
/** Work that is due this soon is waited for. */
const SOON_MS = 1000;

/**
 * Resolves when everything that follows from a job has ended, as far as it can now. Later retries,
 * and runs that wait for people, signals or times, stay as they are.
 */
export async function settleLineage(
  engine: Engine,
  rootJobId: string,
  ms: number,
  signal?: AbortSignal,
): Promise<void> {
  const until = performance.now() + ms;
  let [known, since, restMs] = ['', performance.now(), POLL_MS];
  while (performance.now() < until) {
    if (signal?.aborted === true) return;
    const open = await findOpen(engine, rootJobId);
    // Work that ended between the reads may have started other work.
    if (open.length === 0 && (await findOpen(engine, rootJobId)).length === 0) return;
    const seen = open.join(' ');
    restMs = seen === known ? Math.min(2 * restMs, POLL_MS_MAX) : POLL_MS;
    // Jobs that run here may be what the others wait for, such as a plugin's init or a job with the
    // same key.
    const isMoving = seen !== known || isRunning(open) || engine.status().running.length > 0;
    if (isMoving) [known, since] = [seen, performance.now()];
    else if (performance.now() - since > STALL_MS) return;
    await new Promise((resolve) => setTimeout(resolve, restMs));
  }
}

function isRunning(open: readonly string[]): boolean {
  return open.some((work) => work.startsWith('running '));
}

/**
 * Lists work that runs or could run now, as texts with its state. Jobs are read last: if a branch waits
 * for a job that is missing, that job has ended.
 */
async function findOpen({ ledger }: Engine, rootJobId: string): Promise<string[]> {
  const lineage = { rootJobId, status: ['queued', 'running'], limit: limits.pageRowsMax } as const;
  const runs = await ledger.runs.list(lineage);
  const branches = await Promise.all(
    runs.map(({ id: runId }) =>
      ledger.runs.listBranches({ runId, open: true, limit: limits.pageRowsMax }),
    ),
  );
  const jobs = await ledger.jobs.list(lineage);
  const known = new Set(jobs.map(({ id }) => id));
  const queuedRuns = runs.filter(({ status, dueAt }) => status === 'queued' && isSoon(dueAt));
  return [
    ...jobs.filter(isDue).map(({ id, status }) => `${status} ${id}`),
    ...queuedRuns.map(({ id }) => `queued ${id}`),
    ...branches
      .flat()
      .filter((branch) => canAdvance(branch, known))
      .map(({ id, moves }) => `moving ${id} ${moves}`),
  ];
}

function isDue({ status, nextRetryAt }: Job): boolean {
  return !isTerminal(status) && isSoon(nextRetryAt);
}

/** Returns whether a branch can advance now. Without a due time it waits for branches, a signal or a person. */
function canAdvance(
  { status, dueAt, claimedBy, jobId }: Branch,
  jobs: ReadonlySet<string>,
): boolean {
  if (claimedBy !== null) return true;
  if (status === 'running') return jobId !== null && !jobs.has(jobId);
  return (status === 'advancing' || dueAt !== null) && isSoon(dueAt);
}

function isSoon(at: Timestamp | null): boolean {
  return at === null || fromTimestamp(at) <= Date.now() + SOON_MS;
}
