import { DuctileError, messageOf } from '../base/errors.ts';
import { makeLoop, type Service } from '../base/service.ts';
import type { Directive } from '../directive/directive.ts';
import { replayType } from '../signal/replay-directives.ts';
import { bareReport, type AttemptCause } from './attempt.ts';
import { isTerminal, type Job } from './job.ts';
import { blame, type Ending, endAsCancelled, endAsCrashed } from './outcome.ts';
import type { DirectiveClosing } from '../ledger/directive-work.ts';
import type { Closing, Settlement } from '../ledger/commit.ts';
import type { Orphan } from './types.ts';
import { followDirective } from '../directive/signals.service.ts';
import { createFailedArrival } from '../pipeline/run/transition.ts';
import { followDeath } from '../pipeline/follow-signal.ts';
import { noConsequences, type FollowRules } from '../pipeline/follow-event.ts';
import { toLogFields } from './settle.service.ts';
import type { LedgerContext } from '../engine/context.ts';
import { reaperRulesOf } from '../engine/rules.ts';
import type { TenantKeeper } from '../tenant/tenants.ts';

const BURIED_MAX = 100;

export interface Reaper extends Service {
  /** Takes back what processes left that are proven dead, as a lock on the state proves it. */
  recover(): Promise<number>;
  /** Ends the queued jobs of plugins that a reload removed, where no other host could have them. */
  forsake(plugins: readonly string[]): Promise<void>;
  /**
   * Ends the jobs of removed plugins that were queued after the reload. A job that ran during the
   * reload keeps its configuration, so it can still queue jobs for them.
   */
  endForsaken(): Promise<void>;
}

/**
 * Gives back the work of processes that died. Recovery only queues again; the ordinary claim picks
 * the runner. Any process may reap: closings are fenced by the dead claim's own token, so of two
 * that reap the same claim one finds nothing to do.
 */
export function makeReaper(
  context: LedgerContext,
  mayJudge: () => boolean,
  tenants: Pick<TenantKeeper, 'mourn'> | undefined,
): Reaper {
  const { ledger, processId } = context;
  const log = context.log.child('reaper');
  const sightings = makeSightings();
  /** Plugins that reloads removed and that did not come back. */
  const forsaken = new Set<string>();

  const reapAll = async (staleMs: number, isSure: () => boolean): Promise<number> => {
    let recovered = 0;
    for (const orphan of await ledger.processes.listOrphans({ self: processId, staleMs })) {
      // The answer may have come late, after a standstill in which everybody fell silent.
      if (!isSure()) break;
      try {
        // Recover the process's work in tenants first: after it is forgotten, it is not searched
        // for.
        await tenants?.mourn();
        recovered += await reapOne(orphan, staleMs, context);
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
      if (!mayJudge()) return;
      await reapAll(context.config.service.reapAfterMs, mayJudge);
      await takeExpired(context);
      await bury(context, sightings);
    },
    onError: (error) => log.error('reaping failed', { error: messageOf(error) }),
  });

  return {
    ...loop,
    recover: () => reapAll(0, () => true),
    async forsake(plugins) {
      if (ledger.kind !== 'sqlite') return;
      for (const plugin of plugins) {
        forsaken.add(plugin);
        await buryOf(plugin, context);
      }
    },
    async endForsaken() {
      const { isLoaded } = reaperRulesOf(context.generation);
      for (const plugin of forsaken) {
        if (isLoaded(plugin)) forsaken.delete(plugin);
        else await buryOf(plugin, context);
      }
    },
  };
}

async function reapOne(orphan: Orphan, staleMs: number, context: LedgerContext): Promise<number> {
  const charged = blame(orphan.jobs);
  const closings = orphan.jobs.map((job) =>
    crashClosing(job, charged.has(job.id), 'engine_crash', 'the process that ran it died', context),
  );
  const released = orphan.directives.filter(({ attempt, maxAttempts }) => attempt < maxAttempts);
  const directives = orphan.directives
    .filter((directive) => !released.includes(directive))
    .map((directive) => failUnattended(directive, context));
  const { processId } = orphan;
  return closeAll(closings, context, (some) =>
    context.ledger.processes.reap({
      processId,
      staleMs,
      closings: some,
      // Directives of a forgotten process are found anyway.
      ...(some === closings ? { directives, released } : {}),
    }),
  );
}

/**
 * Closes all together; when that fails for a reason that lies in the data, each alone, so that one claim
 * that cannot be closed does not hold up the others.
 */
async function closeAll(
  closings: readonly Closing[],
  context: LedgerContext,
  write: (some: readonly Closing[]) => Promise<Settlement>,
): Promise<number> {
  try {
    return report(closings, await write(closings), context);
  } catch (error) {
    if (error instanceof DuctileError || closings.length === 0) throw error;
  }
  let closed = 0;
  for (const closing of closings) {
    try {
      closed += report([closing], await write([closing]), context);
    } catch (error) {
      if (error instanceof DuctileError) throw error;
      const told = { ...toLogFields(closing.job), error: messageOf(error) };
      context.log.child('reaper').error('a job could not be recovered', told);
    }
  }
  return closed;
}

/** How far it came is not known, so what is not safe to repeat is not done again but told. */
function failUnattended(directive: Directive, { generation }: LedgerContext): DirectiveClosing {
  const { id, type, processId, progress } = directive;
  const isResumable = type === replayType.type && progress !== null;
  const error = `the process that executed it died${
    isResumable ? `; continue it with \`ductile signal replay --resume ${id}\`` : ''
  }`;
  const end = { status: 'failed', code: 'DIRECTIVE_FAILED', error } as const;
  const follows = followDirective(directive, 'failed', generation.rules, end);
  return { id, processId, end, ...follows };
}

/** Claims that are older than any attempt may be, of processes that still beat. */
async function takeExpired(context: LedgerContext): Promise<void> {
  const expired = await context.ledger.jobs.listExpiredClaims();
  const closings = expired
    .filter(({ claimedBy }) => claimedBy !== context.processId)
    .map((job) =>
      crashClosing(job, false, 'claim_expired', 'its claim outlived its time', context),
    );
  if (closings.length === 0) return;
  await closeAll(closings, context, (some) => context.ledger.jobs.settle(some));
}

/** When this process last saw somebody who knows a plugin. */
interface Sightings {
  note(plugins: readonly string[]): void;
  /** Whether nobody has known it for so long, as far as this process has seen. */
  isMissing(plugin: string, forMs: number): boolean;
}

function makeSightings(): Sightings {
  const beganAt = performance.now();
  const seenAt = new Map<string, number>();
  return {
    note(plugins) {
      for (const plugin of plugins) seenAt.set(plugin, performance.now());
    },
    isMissing: (plugin, forMs) => performance.now() - (seenAt.get(plugin) ?? beganAt) >= forMs,
  };
}

/**
 * Jobs that nobody could run for the whole grace time do not wait for ever in silence. However old
 * they are, the time counts from when the last one who knew the plugin went: it may be back soon.
 */
async function bury(context: LedgerContext, sightings: Sightings): Promise<void> {
  const { ledger } = context;
  const { runnerGraceMs, reapAfterMs, unloaded, follow } = reaperRulesOf(context.generation);
  const asked = { graceMs: runnerGraceMs, staleMs: reapAfterMs, limit: BURIED_MAX, unloaded };
  sightings.note([...(await ledger.processes.listLivePlugins(reapAfterMs)), ...unloaded]);
  const found = await ledger.jobs.listUnrunnable(asked);
  const lost = found.filter(({ plugin }) => sightings.isMissing(plugin, runnerGraceMs));
  if (lost.length === 0) return;
  const error = (plugin: string): string =>
    `no process has known the plugin ${plugin} for ${runnerGraceMs / 1000} s`;
  const closings = lost.map((job) => unrunnableClosing(job, error(job.plugin), follow));
  await closeAll(closings, context, (some) => ledger.jobs.settle(some));
}

/** All that is queued for it, also what is to run later. */
async function buryOf(plugin: string, context: LedgerContext): Promise<void> {
  const { ledger } = context;
  const { follow } = reaperRulesOf(context.generation);
  const error = `the plugin ${plugin} was taken away by a reload`;
  for (;;) {
    const lost = await ledger.jobs.listQueued(plugin, BURIED_MAX);
    const closings = lost.map((job) => unrunnableClosing(job, error, follow));
    if (closings.length === 0) return;
    const closed = await closeAll(closings, context, (some) => ledger.jobs.settle(some));
    // A job that can't be closed would be found forever.
    if (closed === 0) return;
  }
}

function unrunnableClosing(job: Job, error: string, follow: FollowRules): Closing {
  const { retryCount, crashCount, interruptCount, suspect } = job;
  const counts = { retryCount, crashCount, interruptCount, suspect, delayMs: 0 };
  const ending: Ending = { ...counts, status: 'dead', reason: 'no_runner' };
  return {
    job,
    claimToken: null,
    report: bareReport('failed', 'spawn', error),
    ending,
    ...followDeath(job, { ...ending, error }, follow, Date.now()),
    ...createFailedArrival(job, ending, error),
  };
}

function crashClosing(
  job: Job,
  charged: boolean,
  cause: AttemptCause,
  error: string,
  context: LedgerContext,
): Closing {
  // The process that was to stop the job is gone, so the request is fulfilled here.
  const cancelled = job.cancelRequestedAt !== null;
  const rules = reaperRulesOf(context.generation);
  const ending = cancelled ? endAsCancelled(job) : endAsCrashed(job, charged, rules.crash);
  const consequences =
    isTerminal(ending.status) && !cancelled
      ? followDeath(job, { ...ending, error }, rules.follow, Date.now())
      : noConsequences();
  return {
    job,
    claimToken: job.claimToken,
    report: bareReport('crashed', cause, error),
    ending,
    ...consequences,
    ...createFailedArrival(job, ending, error),
  };
}

function report(
  closings: readonly Closing[],
  settlement: Settlement,
  context: LedgerContext,
): number {
  const log = context.log.child('reaper');
  const settled = closings.filter(({ job }) => settlement.verdicts.get(job.id) === 'settled');
  for (const { job, ending, report: told } of settled) {
    log.warn(ending.status === 'queued' ? 'job recovered' : 'job given up', {
      ...toLogFields(job),
      attempt: job.attempt,
      cause: told.cause,
      status: ending.status,
      crash_count: ending.crashCount,
      ...(ending.reason === null ? {} : { reason: ending.reason }),
    });
  }
  if (settled.length > 0) {
    const { news, enqueued } = settlement;
    // Released jobs are ready now, on this and on other hosts.
    context.commits.publish({ ...news, enqueued, endedJobs: settled, claimable: true });
  }
  return settled.length;
}
