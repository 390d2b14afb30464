import { formatByteSize } from '../../base/byte-size.ts';
import { fromTimestamp } from '../../base/clock.ts';
import { formatDuration } from '../../base/duration.ts';
import type { Attempt } from '../../job/attempt.ts';
import type { Job } from '../../job/job.ts';
import type { BreakerRow } from '../../ledger/schedules.ts';
import {
  firstLine,
  plural,
  quote,
  toExplanation,
  type Cause,
  type Explanation,
  type Fact,
} from './answer.ts';
import { tellOrigin, type Link } from './origin.ts';
import { findWaits, type WaitFacts } from './waits.ts';

export interface JobFacts {
  readonly job: Job;
  /** From the job itself back. */
  readonly links: readonly Link[];
  /** Of one that waits. */
  readonly waits?: WaitFacts | undefined;
  /** Of one that has ended, or is tried again. */
  readonly attempts: readonly Attempt[];
  readonly breaker?: BreakerRow | undefined;
  /** The job that does its work again. */
  readonly retriedAs?: string | undefined;
}

/** Why a job ran, ended as it did, or waits. */
export function explainJob(facts: JobFacts): Explanation {
  const { job, waits } = facts;
  const subject = { kind: 'job', id: job.id, state: job.status } as const;
  const origin = tellOrigin(facts.links);
  if (job.status === 'queued' && waits !== undefined) {
    return toExplanation(subject, findWaits(waits), origin, [`ductile job cancel ${job.id}`]);
  }
  if (job.status === 'running') return toExplanation(subject, [runs(job)], origin);
  const [end, ...history] = endOf(facts);
  return toExplanation(subject, [end, ...history], origin, remedies(facts));
}

function runs({
  id,
  attempt,
  startedAt,
  claimedBy,
  claimExpiresAt,
  cancelRequestedAt,
}: Job): Cause {
  const asked = cancelRequestedAt !== null;
  return {
    fact: asked ? 'it was told to stop, and is still running' : `attempt ${attempt} is running`,
    evidence: `on process ${claimedBy ?? 'unknown'}`,
    at: startedAt,
    movesAt: claimExpiresAt,
    movesBy: 'it ends by itself, by its timeout, or when its claim is over',
    commands: asked ? [] : [`ductile job cancel ${id}`],
  };
}

function endOf({ job, attempts, breaker, retriedAs }: JobFacts): [Cause, ...Fact[]] {
  const history: Fact[] = [
    ...(retriedAs === undefined
      ? []
      : [{ fact: 'its work was done again', evidence: `job ${retriedAs}` }]),
    ...describeUsage(attempts.at(-1)),
    ...tellAttempts(attempts, job),
    ...tellBreaker(breaker, job),
  ];
  return [
    { fact: verdictOf(job, attempts), evidence: lastWords(job, attempts), at: job.completedAt },
    ...history,
  ];
}

function verdictOf(job: Job, attempts: readonly Attempt[]): string {
  const { status, reason } = job;
  const last = attempts.at(-1);
  if (status === 'succeeded') {
    const tries = attempts.length > 1 ? ` with attempt ${job.attempt}` : '';
    return `it succeeded${tries}${tookOf(last)}`;
  }
  if (status === 'cancelled') return 'somebody cancelled it';
  if (status === 'skipped') return `it was skipped: ${reason ?? 'no reason'}`;
  if (reason === 'crashes_exhausted') {
    return `the engine crashed ${plural(job.crashCount, 'time')} while it ran alone, so it was put aside`;
  }
  if (reason === 'retries_exhausted') {
    const how = status === 'timed_out' ? 'the last one timed out' : 'none is left';
    return `all ${plural(job.maxAttempts, 'attempt')} failed, ${how}`;
  }
  if (reason !== null && Object.hasOwn(finals, reason)) return finals[reason] ?? reason;
  return `it ended as ${status}${reason === null ? '' : ` (${reason})`}, and trying again would not help`;
}

/** Why no further attempt was made. */
const finals: Readonly<Record<string, string>> = {
  plugin_error: 'the plugin said that it failed and that trying again would not help',
  exit: 'the plugin ended with an exit code that means: do not try again',
  unknown_command: 'its plugin does not have that command',
  credential: 'a credential that its plugin needs is missing',
  state_too_large: 'its state would have been larger than may be',
  settle_error: 'its result could not be recorded',
  no_runner: 'no process knows its plugin',
};

function lastWords({ lastError }: Job, attempts: readonly Attempt[]): string {
  const last = attempts.at(-1);
  if (lastError !== null) return firstLine(lastError);
  if (last === undefined) return 'it never started';
  return `attempt ${last.attempt}: ${last.cause}`;
}

/** One line for all that ended alike. */
function tellAttempts(attempts: readonly Attempt[], job: Job): Fact[] {
  const earlier = attempts.slice(0, -1);
  const groups: { attempts: Attempt[]; words: string }[] = [];
  for (const attempt of earlier) {
    const words = `${attempt.status}: ${firstLine(attempt.error ?? attempt.cause)}`;
    const group = groups.at(-1);
    if (group?.words === words) group.attempts.push(attempt);
    else groups.push({ attempts: [attempt], words });
  }
  const told = groups.slice(-GROUPS_MAX).toReversed();
  return told.map(({ attempts: [first, ...rest], words }) => {
    const numbers = `attempt ${first?.attempt ?? job.attempt}`;
    const last = rest.at(-1);
    const which = last === undefined ? numbers : `${numbers} to ${last.attempt}`;
    return { fact: `${which} ${words}`, evidence: 'job_log', at: (last ?? first)?.completedAt };
  });
}

const GROUPS_MAX = 3;

function tellBreaker(breaker: BreakerRow | undefined, job: Job): Fact[] {
  if (breaker === undefined || breaker.state === 'closed') return [];
  const isOwn = breaker.lastJobId === job.id;
  return [
    {
      fact: `the breaker of ${breaker.plugin} ${breaker.command} is ${breaker.state}${isOwn ? ' since this job' : ''}`,
      evidence: `${breaker.failureCount} of ${breaker.threshold} failures in a row`,
      at: breaker.openedAt,
    },
  ];
}

function remedies({ job, breaker, retriedAs }: JobFacts): string[] {
  const { id, status, plugin } = job;
  if (status === 'succeeded') return [`ductile job inspect ${id}`];
  const again = job.runId === null ? `ductile job retry ${id}` : `ductile run revive ${job.runId}`;
  return [
    ...(retriedAs === undefined ? [again] : [`ductile why ${retriedAs}`]),
    `ductile logs --job ${id}`,
    ...(breaker === undefined || breaker.state === 'closed'
      ? []
      : [`ductile system reset ${quote(plugin)}`]),
  ];
}

/** Nothing of an attempt that was not measured. */
function describeUsage(attempt: Attempt | undefined): Fact[] {
  const { cpuMs = null, memoryPeakBytes = null } = attempt ?? {};
  const parts = [
    ...(cpuMs === null ? [] : [`${formatDuration(cpuMs)} of CPU time`]),
    ...(memoryPeakBytes === null ? [] : [`${formatByteSize(memoryPeakBytes)} of memory at most`]),
  ];
  if (attempt === undefined || parts.length === 0) return [];
  const fact = `attempt ${attempt.attempt} used ${parts.join(' and ')}`;
  return [{ fact, evidence: 'job_log', at: attempt.completedAt }];
}

function tookOf(attempt: Attempt | undefined): string {
  if (attempt?.startedAt === undefined || attempt.startedAt === null) return '';
  const ms = fromTimestamp(attempt.completedAt) - fromTimestamp(attempt.startedAt);
  return ` in ${formatDuration(Math.max(0, ms))}`;
}
