import { makeFailureLog, type Log } from '../base/log.ts';
import { messageOf } from '../base/errors.ts';
import { makeLoop, type Loop } from '../base/service.ts';
import type { HeartbeatAnswer, ProcessBeat, RunningClaim } from './types.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { hostname } from 'node:os';
import type { Config } from '../config/config.ts';
import { digestConfigFiles } from '../config/integrity.ts';
import { schemaVersion } from '../ledger/migrate.ts';
import type { Host } from '../plugin/process.ts';
import type { Dispatcher } from './dispatcher.service.ts';
import type { Generation } from '../engine/generation.ts';
import { makeReaper, type Reaper } from './reaper.service.ts';
import { bareReport } from './attempt.ts';
import { endAsReleased } from './outcome.ts';
import type { Closing } from '../ledger/commit.ts';
import { toLogFields } from './settle.service.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { TenantKeeper } from '../tenant/tenants.ts';

interface Heartbeat extends Loop {
  /**
   * Since when every heartbeat was committed, and in time, in monotonic milliseconds; undefined after
   * a failure, or when the last one was so long ago that this process may be presumed dead itself.
   */
  readonly unbrokenSince: number | undefined;
  /** When the last one was over, however it went, in monotonic milliseconds. */
  readonly lastRoundAt: number;
  /** Why the last one could not be recorded. */
  readonly trouble: string | undefined;
}

/** The response to a heartbeat. */
interface HeardBeat {
  readonly answer: HeartbeatAnswer;
  /** How long ago the heartbeat was requested: others count from its commit, which came later. */
  readonly agoMs: number;
  /** Another process reaped this one although it lives: its claims belong to others now. */
  readonly isLost: boolean;
}

/** Says that the process lives, and compares what it holds with what the ledger believes. */
function makeHeartbeat(
  context: LedgerContext,
  beat: () => ProcessBeat,
  hear: (heard: HeardBeat) => void,
): Heartbeat {
  const { ledger } = context;
  const log = context.log.child('heartbeat');
  let unbrokenSince: number | undefined;
  /** When the last one was asked for that was committed. */
  let committedAt: number | undefined;
  let registered = false;
  let trouble: string | undefined;
  let lastRoundAt = performance.now();
  const complaint = makeFailureLog((fields) =>
    log.error('the heartbeat could not be recorded', fields),
  );

  const isSilent = (): boolean =>
    committedAt !== undefined &&
    performance.now() - committedAt >= context.config.service.reapAfterMs;

  const runOnce = async (): Promise<void> => {
    const askedAt = performance.now();
    const answer = await ledger.processes.heartbeat(beat());
    if (isSilent()) unbrokenSince = undefined;
    committedAt = askedAt;
    unbrokenSince ??= performance.now();
    trouble = undefined;
    complaint.reset();
    const isLost = registered && !answer.known;
    if (isLost) {
      log.error('this process was presumed dead; its claims were given to others');
      unbrokenSince = performance.now();
    }
    registered = true;
    lastRoundAt = performance.now();
    hear({ answer, agoMs: performance.now() - askedAt, isLost });
  };

  const loop = makeLoop({
    name: 'heartbeat',
    everyMs: () => context.config.service.heartbeatIntervalMs,
    runOnce,
    onError: (error) => {
      unbrokenSince = undefined;
      trouble = messageOf(error);
      lastRoundAt = performance.now();
      complaint.report(error);
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

/** That this process lives, and what becomes of the work of those that do not. */
export interface Liveness {
  readonly heartbeat: Heartbeat;
  readonly reaper: Reaper;
  /** Resolves with the ledger's schema when a newer program has changed it. */
  readonly outgrown: Promise<number>;
  /** At the start on a file: whoever held its lock before is dead. */
  recover(): Promise<void>;
  /**
   * Returns whether the heartbeats were unbroken for a whole threshold, so that this process may
   * presume others dead.
   */
  mayJudge(): boolean;
  /**
   * Returns whether the heartbeat loop still runs. An unreachable database doesn't count: a restart
   * would not fix it, and would cost the running jobs.
   */
  isSound(): boolean;
}

/** Until when plugin processes may be started here, as far as other processes know. */
export class SpawnLease {
  /** In monotonic milliseconds. */
  #endsAt: number;

  /** Only on PostgreSQL may others take the claims of a process that falls silent. */
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
  dispatcher: Pick<Dispatcher, 'stopAll' | 'stopJob' | 'holds' | 'close' | 'wakeSurely'>,
  tenants: Pick<TenantKeeper, 'mourn'> | undefined,
): Liveness {
  const { ledger, processId, tenant } = context;
  const log = context.log.child('engine');
  const outgrown = Promise.withResolvers<number>();
  const service = (): Config['service'] => context.config.service;
  const heartbeat = makeHeartbeat(context, beat, hear);
  const reaper = makeReaper(context, mayJudge, tenants);
  return {
    heartbeat,
    reaper,
    outgrown: outgrown.promise,
    async recover() {
      const jobs = ledger.kind === 'sqlite' ? await reaper.recover() : 0;
      if (jobs > 0) log.warn('work of a crashed process recovered', { jobs });
    },
    mayJudge,
    isSound() {
      const { heartbeatIntervalMs, reapAfterMs } = service();
      return performance.now() - heartbeat.lastRoundAt < heartbeatIntervalMs + reapAfterMs;
    },
  };

  function mayJudge(): boolean {
    return canJudge(heartbeat, service().reapAfterMs, tenant);
  }

  function beat(): ProcessBeat {
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

  function hear({ answer, agoMs, isLost }: HeardBeat): void {
    if (isLost) dispatcher.stopAll('shutdown');
    const { heartbeatIntervalMs, reapAfterMs } = service();
    // Only where others may take our claims do our processes have to end when we fall silent.
    // A response that comes too late renews nothing: the next one tells whose the claims are.
    const leftMs = reapAfterMs - heartbeatIntervalMs - agoMs;
    if (ledger.kind === 'postgres' && leftMs > 0) renew(leftMs);
    compareClaims(answer, dispatcher, ledger, log);
    const { schemaVersion: found = schemaVersion } = answer;
    if (found > schemaVersion) outgrown.resolve(found);
  }

  function renew(ms: number): void {
    const wasFenced = !lease.isValid;
    lease.renew(ms);
    host.renew(ms);
    if (wasFenced) dispatcher.wakeSurely();
  }
}

/** The files are named in the root ledger only: a tenant's says nothing about those of the operator. */
function describeGeneration(
  { catalog, config }: Generation,
  isRoot: boolean,
): Pick<ProcessBeat, 'plugins' | 'configFile' | 'configDigest'> {
  return { plugins: [...catalog.plugins.keys()], ...(isRoot ? describeConfig(config) : {}) };
}

const described = new WeakMap<Config, Pick<ProcessBeat, 'configFile' | 'configDigest'>>();

function describeConfig(config: Config): Pick<ProcessBeat, 'configFile' | 'configDigest'> {
  const known = described.get(config);
  if (known !== undefined) return known;
  const made = { configFile: config.file, configDigest: digestConfigFiles(config.files) };
  described.set(config, made);
  return made;
}

/**
 * After an outage of the database, all processes look dead to the first one that comes back. A tenant that was
 * just opened need not wait for its own heartbeats: the root's show that there was no outage.
 */
function canJudge(
  { unbrokenSince: since }: Heartbeat,
  reapAfterMs: number,
  tenant: LedgerContext['tenant'],
): boolean {
  if (since === undefined || tenant?.mayJudge() === true) return since !== undefined;
  return performance.now() - since >= reapAfterMs;
}

/** Compares the claims in the ledger with the claims that this process holds. */
function compareClaims(
  { running }: HeartbeatAnswer,
  dispatcher: Pick<Dispatcher, 'stopJob' | 'holds' | 'close'>,
  ledger: Ledger,
  log: Log,
): void {
  for (const { jobId, cancelRequested } of running) {
    if (cancelRequested) dispatcher.stopJob(jobId, 'cancelled');
  }
  const unheld = running.filter(({ jobId, claimToken }) => !dispatcher.holds(jobId, claimToken));
  if (unheld.length === 0) return;
  releaseUnheld(ledger, unheld, log).then(
    (closings) => dispatcher.close(closings),
    (error: unknown) => log.warn('unheld claims stay for now', { error: messageOf(error) }),
  );
}

/**
 * Claims that the ledger counts as ours and nobody here holds: a claim whose answer was lost. They
 * are given back at once; if one was settled meanwhile, its fence makes this a no-op.
 */
async function releaseUnheld(
  ledger: Ledger,
  unheld: readonly RunningClaim[],
  log: Log,
): Promise<Closing[]> {
  const closings: Closing[] = [];
  for (const { jobId, claimToken } of unheld) {
    const job = await ledger.jobs.find(jobId);
    if (job === undefined || job.claimToken !== claimToken) continue;
    log.warn('a claim that nobody holds is given back', toLogFields(job));
    const report = bareReport('released', 'unheld', 'the answer to its claim was lost');
    closings.push({ job, claimToken, report, ending: endAsReleased(job), signals: [], jobs: [] });
  }
  return closings;
}
