import { hostname } from 'node:os';
import { messageOf } from '../base/errors.ts';
import { makeFailureLog, type Log } from '../base/log.ts';
import { makeLoop, type Loop } from '../base/service.ts';
import type { Config } from '../config/config.ts';
import { digestConfigFiles } from '../config/integrity.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { Generation } from '../engine/generation.ts';
import type { Closing } from '../ledger/commit.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { schemaVersion } from '../ledger/migrate.ts';
import type { Host } from '../plugin/process.ts';
import type { TenantPool } from '../tenant/tenants.ts';
import { createBareReport } from './attempt.ts';
import type { Dispatcher } from './dispatcher.service.ts';
import { endAsReleased } from './outcome.ts';
import { makeReaper, type Reaper } from './reaper.service.ts';
import { toLogFields } from './settle.service.ts';
import type { HeartbeatResult, ProcessBeat, RunningClaim } from './types.ts';

interface Heartbeat extends Loop {
  /**
   * Since when all heartbeats were committed in time, in monotonic milliseconds. Undefined after a
   * failure, or if the last one is so long ago that other processes may presume this one dead.
   */
  readonly unbrokenSince: number | undefined;
  /** The end of the last heartbeat, successful or not, in monotonic milliseconds. */
  readonly lastRoundAt: number;
  /** The reason why the last heartbeat could not be recorded. */
  readonly trouble: string | undefined;
}

/** A committed heartbeat. */
interface HeartbeatEvent {
  readonly result: HeartbeatResult;
  /** The time since the request. Other processes count from the commit, which came later. */
  readonly agoMs: number;
  /** Another process presumed this one dead, so its claims belong to others now. */
  readonly isLost: boolean;
}

/** Records that the process is alive, and hands the claims that the ledger knows to `onBeat`. */
function makeHeartbeat(
  context: LedgerContext,
  describeProcess: () => ProcessBeat,
  onBeat: (event: HeartbeatEvent) => void,
): Heartbeat {
  const { ledger } = context;
  const log = context.log.child('heartbeat');
  let unbrokenSince: number | undefined;
  /** The time of the request of the last heartbeat that was committed. */
  let committedAt: number | undefined;
  let isRegistered = false;
  let trouble: string | undefined;
  let lastRoundAt = performance.now();
  const failureLog = makeFailureLog((fields) =>
    log.error('the heartbeat could not be recorded', fields),
  );

  const isSilent = (): boolean =>
    committedAt !== undefined &&
    performance.now() - committedAt >= context.config.service.reapAfterMs;

  const runOnce = async (): Promise<void> => {
    const requestedAt = performance.now();
    const result = await ledger.processes.heartbeat(describeProcess());
    if (isSilent()) unbrokenSince = undefined;
    committedAt = requestedAt;
    unbrokenSince ??= performance.now();
    trouble = undefined;
    failureLog.reset();
    const isLost = isRegistered && !result.known;
    if (isLost) {
      log.error('this process was presumed dead; its claims were released');
      unbrokenSince = performance.now();
    }
    isRegistered = true;
    lastRoundAt = performance.now();
    onBeat({ result, agoMs: performance.now() - requestedAt, isLost });
  };

  const loop = makeLoop({
    name: 'heartbeat',
    everyMs: () => context.config.service.heartbeatIntervalMs,
    runOnce,
    onError: (error) => {
      unbrokenSince = undefined;
      trouble = messageOf(error);
      lastRoundAt = performance.now();
      failureLog.report(error);
    },
  });

  return {
    name: 'heartbeat',
    get unbrokenSince() {
      return isSilent() ? undefined : unbrokenSince;
    },
    get lastRoundAt() {
      return lastRoundAt;
    },
    get trouble() {
      return trouble;
    },
    async start() {
      await runOnce();
      await loop.start();
    },
    stop: () => loop.stop(),
    soon: () => loop.soon(),
  };
}

/** The heartbeat of this process, and the recovery of the work of dead processes. */
export interface Liveness {
  readonly heartbeat: Heartbeat;
  readonly reaper: Reaper;
  /** Resolves with the ledger's schema version when a newer program has migrated it. */
  readonly outgrown: Promise<number>;
  /** Recovers, at the start on a SQLite file, the work of processes that held its lock before. */
  recover(): Promise<void>;
  /**
   * Returns whether the heartbeats were unbroken for a whole threshold, so that this process may
   * presume others dead.
   */
  mayReap(): boolean;
  /**
   * Returns whether the heartbeat loop still runs. An unreachable database doesn't count: a restart
   * would not fix it, and would cost the running jobs.
   */
  isBeating(): boolean;
}

/** The time until which this process may start plugin processes, as far as other processes know. */
export class SpawnLease {
  /** In monotonic milliseconds. */
  #endsAt: number;

  /** Only on PostgreSQL can other processes take over the claims of a silent one. */
  constructor(kind: Ledger['kind']) {
    this.#endsAt = kind === 'postgres' ? -Infinity : Infinity;
  }

  get isValid(): boolean {
    return performance.now() < this.#endsAt;
  }

  renew(ms: number): void {
    this.#endsAt = performance.now() + ms;
  }
}

export function makeLiveness(
  context: LedgerContext,
  { host, version }: { readonly host: Host; readonly version: string },
  lease: SpawnLease,
  dispatcher: Pick<Dispatcher, 'stopAll' | 'stopJob' | 'hasClaim' | 'close' | 'retryNow'>,
  tenants: Pick<TenantPool, 'makeAllDue'> | undefined,
): Liveness {
  const { ledger, processId, tenant } = context;
  const log = context.log.child('engine');
  const outgrown = Promise.withResolvers<number>();
  const service = (): Config['service'] => context.config.service;
  const heartbeat = makeHeartbeat(context, describeProcess, handleBeat);
  const reaper = makeReaper(context, mayReap, tenants);
  return {
    heartbeat,
    reaper,
    outgrown: outgrown.promise,
    async recover() {
      const jobs = ledger.kind === 'sqlite' ? await reaper.recover() : 0;
      if (jobs > 0) log.warn('work of a crashed process recovered', { jobs });
    },
    mayReap,
    isBeating() {
      const { heartbeatIntervalMs, reapAfterMs } = service();
      return performance.now() - heartbeat.lastRoundAt < heartbeatIntervalMs + reapAfterMs;
    },
  };

  /**
   * After an outage of the database, all processes look dead to the first one that comes back. So this
   * process waits for unbroken heartbeats. A tenant that was just opened need not wait for its own:
   * those of the root ledger show that there was no outage.
   */
  function mayReap(): boolean {
    const { unbrokenSince } = heartbeat;
    if (unbrokenSince === undefined) return false;
    if (tenant?.mayReap() === true) return true;
    return performance.now() - unbrokenSince >= service().reapAfterMs;
  }

  function describeProcess(): ProcessBeat {
    return {
      id: processId,
      host: hostname(),
      pid: process.pid,
      version,
      slots: service().maxWorkers,
      spawner: host.kind,
      ...describeGeneration(context.generation, tenant === undefined),
    };
  }

  function handleBeat({ result, agoMs, isLost }: HeartbeatEvent): void {
    if (isLost) dispatcher.stopAll('shutdown');
    const { heartbeatIntervalMs, reapAfterMs } = service();
    // Only if others may take over the claims of a silent process do its plugin processes have to
    // end. A response that came too late renews nothing: the next one says whose the claims are.
    const leftMs = reapAfterMs - heartbeatIntervalMs - agoMs;
    if (ledger.kind === 'postgres' && leftMs > 0) renewLease(leftMs);
    compareClaims(result, dispatcher, ledger, log);
    const { schemaVersion: found = schemaVersion } = result;
    if (found > schemaVersion) outgrown.resolve(found);
  }

  function renewLease(ms: number): void {
    const wasFenced = !lease.isValid;
    lease.renew(ms);
    host.renew(ms);
    if (wasFenced) dispatcher.retryNow();
  }
}

/** Names the configuration files only in the root ledger: they are the operator's, not a tenant's. */
function describeGeneration(
  { catalog, config }: Generation,
  isRoot: boolean,
): Pick<ProcessBeat, 'plugins' | 'configFile' | 'configDigest'> {
  return { plugins: [...catalog.plugins.keys()], ...(isRoot ? describeConfig(config) : {}) };
}

const configDescriptions = new WeakMap<Config, Pick<ProcessBeat, 'configFile' | 'configDigest'>>();

function describeConfig(config: Config): Pick<ProcessBeat, 'configFile' | 'configDigest'> {
  const known = configDescriptions.get(config);
  if (known !== undefined) return known;
  const description = { configFile: config.file, configDigest: digestConfigFiles(config.files) };
  configDescriptions.set(config, description);
  return description;
}

/** Compares the claims in the ledger with the claims that this process holds. */
function compareClaims(
  { running }: HeartbeatResult,
  dispatcher: Pick<Dispatcher, 'stopJob' | 'hasClaim' | 'close'>,
  ledger: Ledger,
  log: Log,
): void {
  for (const { jobId, cancelRequested } of running) {
    if (cancelRequested) dispatcher.stopJob(jobId, 'cancelled');
  }
  const unheld = running.filter(({ jobId, claimToken }) => !dispatcher.hasClaim(jobId, claimToken));
  if (unheld.length === 0) return;
  closeUnheld(ledger, unheld, log).then(
    (closings) => dispatcher.close(closings),
    (error: unknown) => log.warn('unheld claims were not released', { error: messageOf(error) }),
  );
}

/**
 * Closes claims that the ledger has for this process and that this process doesn't hold: the response
 * to the claim was lost. If a claim was settled in the meantime, its fence makes this a no-op.
 */
async function closeUnheld(
  ledger: Ledger,
  unheld: readonly RunningClaim[],
  log: Log,
): Promise<Closing[]> {
  const closings: Closing[] = [];
  for (const { jobId, claimToken } of unheld) {
    const job = await ledger.jobs.find(jobId);
    if (job === undefined || job.claimToken !== claimToken) continue;
    log.warn('a claim that this process does not hold is released', toLogFields(job));
    const report = createBareReport('released', 'unheld', 'the response to its claim was lost');
    closings.push({ job, claimToken, report, ending: endAsReleased(job), signals: [], jobs: [] });
  }
  return closings;
}
