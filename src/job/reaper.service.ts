import { DuctileError, messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { makeLoop, type Service } from '../base/service.ts';
import type { Directive } from '../directive/directive.ts';
import { followDirective } from '../directive/signals.service.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { Closing, Settlement } from '../ledger/commit.ts';
import type { DirectiveClosing } from '../ledger/directive-work.ts';
import { followDeath, noConsequences } from '../pipeline/follow-job.ts';
import type { FollowRules } from '../pipeline/follow-rules.ts';
import { REPLAY } from '../signal/replay.ts';
import type { TenantPool } from '../tenant/tenants.ts';
import { createBareReport, type AttemptCause } from './attempt.ts';
import { isTerminal, type Job } from './job.ts';
import { findChargedJobs, type Ending, endAsCancelled, endAsCrashed } from './outcome.ts';
import { toLogFields } from './settle.service.ts';
import type { Orphan } from './types.ts';

/** Unrunnable jobs that are ended in one transaction. */
const UNRUNNABLE_MAX = 100;

export interface Reaper extends Service {
  /**
   * Recovers the work of all other processes. They are proven dead: this process holds the lock of
   * the ledger.
   */
  recover(): Promise<number>;
  /** Ends the queued jobs of plugins that a reload removed, if no other host can have the plugins. */
  endJobsOf(plugins: readonly string[]): Promise<void>;
  /**
   * Ends the jobs of removed plugins that were queued after the reload. A job that ran during the
   * reload keeps its configuration, so it can still queue jobs for them.
   */
  endLateJobs(): Promise<void>;
}

/**
 * Requeues the work of processes that died. The ordinary claim chooses the process that runs it next.
 * Every process may reap: a closing is fenced by the token of the dead claim. If two processes reap
 * the same claim, one of them changes nothing.
 */
export function makeReaper(
  context: LedgerContext,
  mayReap: () => boolean,
  tenants: Pick<TenantPool, 'makeAllDue'> | undefined,
): Reaper {
  const { ledger, processId } = context;
  const log = context.log.child('reaper');
  const sightings = makeSightings();
  /** Plugins that reloads removed and that did not come back. */
  const removed = new Set<string>();

  const reapAll = async (staleMs: number, isSure: () => boolean): Promise<number> => {
    let recovered = 0;
    for (const orphan of await ledger.processes.listOrphans({ self: processId, staleMs })) {
      // During an outage of the database, no process could record a heartbeat. So check again.
      if (!isSure()) break;
      try {
        // Mark the tenants as due first. After the row of the process is deleted, no other process
        // would look for its claims in them.
        await tenants?.makeAllDue();
        recovered += await reapProcess(orphan, staleMs, context);
      } catch (error) {
        // A failure to recover one process must not block the others.
        log.error('a dead process could not be reaped', {
          process_id: orphan.processId,
          error: messageOf(error),
        });
      }
    }
    return recovered;
  };

  const loop = makeLoop({
    name: 'reaper',
    everyMs: () => context.config.service.heartbeatIntervalMs,
    // A tenant is often opened because a process died that had claims in it.
    atOnce: true,
    async runOnce() {
      if (!mayReap()) return;
      await reapAll(context.config.service.reapAfterMs, mayReap);
      await closeExpiredClaims(context);
      await endUnrunnable(context, sightings);
    },
    onError: (error) => log.error('reaping failed', { error: messageOf(error) }),
  });

  return {
    ...loop,
    recover: () => reapAll(0, () => true),
    async endJobsOf(plugins) {
      if (ledger.kind !== 'sqlite') return;
      for (const plugin of plugins) {
        removed.add(plugin);
        await endQueued(plugin, context);
      }
    },
    async endLateJobs() {
      const { plugins } = context.generation.catalog;
      for (const plugin of removed) {
        if (plugins.has(plugin)) removed.delete(plugin);
        else await endQueued(plugin, context);
      }
    },
  };
}

async function reapProcess(
  orphan: Orphan,
  staleMs: number,
  context: LedgerContext,
): Promise<number> {
  const charged = findChargedJobs(orphan.jobs);
  const closings = orphan.jobs.map((job) =>
    closeCrashed(job, charged.has(job.id), 'engine_crash', 'the process that ran it died', context),
  );
  const released = orphan.directives.filter(({ attempt, maxAttempts }) => attempt < maxAttempts);
  const directives = orphan.directives
    .filter((directive) => !released.includes(directive))
    .map((directive) => failDirective(directive, context));
  const { processId } = orphan;
  return settleAll(closings, context, (some) =>
    context.ledger.processes.reap({
      processId,
      staleMs,
      closings: some,
      // If claims are closed one by one, the next round finds the directives: they don't need the
      // row of their process.
      ...(some === closings ? { directives, released } : {}),
    }),
  );
}

/**
 * Settles all closings in one transaction. If that fails because of the data, settles each alone, so
 * that one claim that can't be closed doesn't block the others. Returns how many were settled.
 */
async function settleAll(
  closings: readonly Closing[],
  context: LedgerContext,
  write: (some: readonly Closing[]) => Promise<Settlement>,
): Promise<number> {
  try {
    return reportSettled(closings, await write(closings), context);
  } catch (error) {
    if (error instanceof DuctileError || closings.length === 0) throw error;
  }
  let settled = 0;
  for (const closing of closings) {
    try {
      settled += reportSettled([closing], await write([closing]), context);
    } catch (error) {
      if (error instanceof DuctileError) throw error;
      const fields = { ...toLogFields(closing.job), error: messageOf(error) };
      context.log.child('reaper').error('a job could not be recovered', fields);
    }
  }
  return settled;
}

/** Fails a directive without attempts left. Its progress is unknown, so it isn't executed again. */
function failDirective(directive: Directive, { generation }: LedgerContext): DirectiveClosing {
  const { id, type, processId, progress } = directive;
  const isResumable = type === REPLAY && progress !== null;
  const error = `the process that executed it died${
    isResumable ? `; continue it with \`ductile signal replay --resume ${id}\`` : ''
  }`;
  const end = { status: 'failed', code: 'DIRECTIVE_FAILED', error } as const;
  const follows = followDirective(directive, 'failed', generation.rules, end);
  return { id, processId, end, ...follows };
}

/** Closes claims that are older than any attempt can be, although their process is alive. */
async function closeExpiredClaims(context: LedgerContext): Promise<void> {
  const expired = await context.ledger.jobs.listExpiredClaims();
  const closings = expired
    .filter(({ claimedBy }) => claimedBy !== context.processId)
    .map((job) => closeCrashed(job, false, 'claim_expired', 'its claim expired', context));
  if (closings.length === 0) return;
  await settleAll(closings, context, (some) => context.ledger.jobs.settle(some));
}

/** When this process last saw a live process that has a plugin. */
interface Sightings {
  note(plugins: readonly string[]): void;
  /** Returns whether no process has had the plugin for this time, as far as this process saw. */
  isMissing(plugin: string, forMs: number): boolean;
}

function makeSightings(): Sightings {
  const startedAt = performance.now();
  const seenAt = new Map<string, number>();
  return {
    note(plugins) {
      for (const plugin of plugins) seenAt.set(plugin, performance.now());
    },
    isMissing: (plugin, forMs) => performance.now() - (seenAt.get(plugin) ?? startedAt) >= forMs,
  };
}

/**
 * Ends jobs whose plugin no process has had for the whole grace time, so that they don't wait forever.
 * The grace time starts when the last process with the plugin was seen, however old the jobs are: that
 * process may be restarting.
 */
async function endUnrunnable(context: LedgerContext, sightings: Sightings): Promise<void> {
  const { ledger } = context;
  const { config, catalog, rules } = context.generation;
  const { runnerGraceMs, reapAfterMs } = config.service;
  // Jobs of plugins that did not load wait until the plugins are fixed.
  const unloaded = [...catalog.unloaded.keys()];
  sightings.note([...(await ledger.processes.listLivePlugins(reapAfterMs)), ...unloaded]);
  const found = await ledger.jobs.listUnrunnable({
    graceMs: runnerGraceMs,
    staleMs: reapAfterMs,
    limit: UNRUNNABLE_MAX,
    unloaded,
  });
  const unrunnable = found.filter(({ plugin }) => sightings.isMissing(plugin, runnerGraceMs));
  if (unrunnable.length === 0) return;
  const error = (plugin: string): string =>
    `no process has had the plugin ${plugin} for ${runnerGraceMs / 1000} s`;
  const closings = unrunnable.map((job) => closeUnrunnable(job, error(job.plugin), rules));
  await settleAll(closings, context, (some) => ledger.jobs.settle(some));
}

/** Ends all queued jobs of a plugin, delayed jobs included. */
async function endQueued(plugin: string, context: LedgerContext): Promise<void> {
  const { ledger } = context;
  const { rules } = context.generation;
  const error = `the plugin ${plugin} was removed by a reload`;
  for (;;) {
    const queued = await ledger.jobs.listQueued(plugin, UNRUNNABLE_MAX);
    const closings = queued.map((job) => closeUnrunnable(job, error, rules));
    if (closings.length === 0) return;
    const settled = await settleAll(closings, context, (some) => ledger.jobs.settle(some));
    // A job that can't be closed would be found forever.
    if (settled === 0) return;
  }
}

function closeUnrunnable(job: Job, error: string, rules: FollowRules): Closing {
  const { retryCount, crashCount, interruptCount, suspect } = job;
  const counts = { retryCount, crashCount, interruptCount, suspect, delayMs: 0 };
  const ending: Ending = { ...counts, status: 'dead', reason: 'no_runner' };
  return {
    job,
    claimToken: null,
    report: createBareReport('failed', 'spawn', error),
    ending,
    ...followDeath(job, { ...ending, error }, rules, Date.now()),
  };
}

function closeCrashed(
  job: Job,
  isCharged: boolean,
  cause: AttemptCause,
  error: string,
  context: LedgerContext,
): Closing {
  // The process that should have cancelled the job is gone, so the job is cancelled here.
  const isCancelled = job.cancelRequestedAt !== null;
  const { config, rules } = context.generation;
  const crashRules = {
    crashesMax: config.service.maxCrashes,
    suspectAfter: limits.suspectAfter,
  };
  const ending = isCancelled ? endAsCancelled(job) : endAsCrashed(job, isCharged, crashRules);
  const consequences =
    isTerminal(ending.status) && !isCancelled
      ? followDeath(job, { ...ending, error }, rules, Date.now())
      : noConsequences();
  return {
    job,
    claimToken: job.claimToken,
    report: createBareReport('crashed', cause, error),
    ending,
    ...consequences,
  };
}

/** Logs and publishes the closings that were settled. Returns how many. */
function reportSettled(
  closings: readonly Closing[],
  settlement: Settlement,
  context: LedgerContext,
): number {
  const log = context.log.child('reaper');
  const settled = closings.filter(({ job }) => settlement.verdicts.get(job.id) === 'settled');
  for (const { job, ending, report } of settled) {
    log.warn(ending.status === 'queued' ? 'job recovered' : 'job given up', {
      ...toLogFields(job),
      attempt: job.attempt,
      cause: report.cause,
      status: ending.status,
      crash_count: ending.crashCount,
      ...(ending.reason === null ? {} : { reason: ending.reason }),
    });
  }
  if (settled.length > 0) {
    const { runEvents, enqueued } = settlement;
    // Released jobs are ready now, on this and on other hosts.
    context.commits.publish({ ...runEvents, enqueued, endedJobs: settled, claimable: true });
  }
  return settled.length;
}
