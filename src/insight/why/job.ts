import { quoteShell } from '../../base/text.ts';
import { formatByteSize, formatDuration } from '../../base/quantity.ts';
import { fromTimestamp } from '../../base/clock.ts';
import type { Attempt } from '../../job/attempt.ts';
import type { Job } from '../../job/job.ts';
import type { BreakerRow } from '../../schedule/breaker.ts';
import type { RunStatus } from '../../pipeline/run/run.ts';
import {
  toFirstLine,
  formatCount,
  toExplanation,
  type ExplanationCause,
  type Explanation,
  type ExplanationFact,
  type ExplainedSubject,
  describeOrigin,
  type OriginLink,
} from './explanation.ts';
import { describeProgress, type Progress, type ProgressFacts } from '../usual-duration.service.ts';
import { jobOverlong } from '../findings/jobs.ts';
import { breakerOpen } from '../findings/plugins.ts';
import type { PluginFacts, WaitFacts } from './facts.ts';
import { toFindingCause } from './finding.ts';
import { listWaitCauses, orderRepairs, listPluginCauses } from './waits.ts';

/** The records about a job. Optional parts belong to some states only. */
export interface JobFacts {
  readonly job: Job;
  /** The chain of causes, the job first. */
  readonly links: readonly OriginLink[];
  /** For a queued job. */
  readonly waits?: WaitFacts | undefined;
  /** The attempts that have ended, oldest first. */
  readonly attempts: readonly Attempt[];
  readonly breaker?: BreakerRow | undefined;
  /** The job that retries its work. */
  readonly retriedAs?: string | undefined;
  /** For a failed job: what holds its plugin back now. */
  readonly plugin?: PluginFacts | undefined;
  /** For an ended job of a step: its run. */
  readonly run?: StepRunFacts | undefined;
  /** For a running job: how long it has run, and the usual duration. */
  readonly progress?: ProgressFacts | undefined;
}

/** The run of a step's job, which decides what can be done with the job. */
export interface StepRunFacts {
  readonly id: string;
  readonly status: RunStatus;
  readonly revivedAs: string | undefined;
}

/** Explains why a job waits, runs, or ended as it did. */
export function explainJob(facts: JobFacts): Explanation {
  const { job, waits } = facts;
  const subject = { kind: 'job', id: job.id, state: job.status } as const;
  const origin = describeOrigin(facts.links);
  if (job.status === 'queued' && waits !== undefined) {
    const blockers = listWaitCauses(waits);
    const cancel = [`ductile job cancel ${job.id}`];
    return toExplanation(subject, blockers, origin, cancel, { blockers });
  }
  if (job.status === 'running') return explainRunning(subject, facts, origin);
  const [end, ...history] = describeJobEnd(facts);
  // A retry would fail for the same reason, so list what is still broken first.
  const isFailed = job.status !== 'succeeded' && facts.plugin !== undefined;
  const blockers = isFailed ? orderRepairs(listPluginCauses(facts.plugin, job)) : [];
  const commands = [...blockers.flatMap((one) => one.commands ?? []), ...listCommands(facts)];
  return toExplanation(subject, [end, ...history], origin, commands, { blockers });
}

function explainRunning(
  subject: ExplainedSubject,
  { job, progress }: JobFacts,
  origin: readonly ExplanationFact[],
): Explanation {
  const described = progress === undefined ? undefined : describeProgress(progress);
  const isOverlong = described?.isOverlong === true && job.cancelRequestedAt === null;
  const cause =
    isOverlong && progress !== undefined
      ? {
          ...toFindingCause(jobOverlong.describe({ job, ...progress, count: 1 })),
          movesAt: job.claimExpiresAt,
        }
      : describeRunning(job, described);
  const { usual } = progress ?? {};
  return toExplanation(subject, [cause], origin, [], {
    progress:
      described === undefined
        ? null
        : {
            running_ms: described.runningMs,
            silent_ms: described.silentMs,
            median_ms: usual?.medianMs ?? null,
            p95_ms: usual?.p95Ms ?? null,
            attempts: usual?.attempts ?? 0,
          },
  });
}

function describeRunning(job: Job, progress: Progress | undefined): ExplanationCause {
  const { id, attempt, startedAt, claimedBy, claimExpiresAt, cancelRequestedAt } = job;
  const isStopping = cancelRequestedAt !== null;
  const where = `on process ${claimedBy ?? 'unknown'}`;
  return {
    fact: isStopping
      ? 'its cancellation was requested, and it is still running'
      : `attempt ${attempt} is running`,
    evidence: progress === undefined ? where : `${progress.text}; ${where}`,
    at: startedAt,
    movesAt: claimExpiresAt,
    movesBy: 'it ends by itself, by its timeout, or when its claim expires',
    commands: isStopping ? [] : [`ductile job cancel ${id}`],
  };
}

function describeJobEnd({
  job,
  attempts,
  breaker,
  retriedAs,
}: JobFacts): [ExplanationCause, ...ExplanationFact[]] {
  const history: ExplanationFact[] = [
    ...(retriedAs === undefined ? [] : [{ fact: 'it was retried', evidence: `job ${retriedAs}` }]),
    ...describeUsage(attempts.at(-1)),
    ...describeAttempts(attempts, job),
    ...describeBreakerState(breaker),
  ];
  return [
    {
      fact: verdictOf(job, attempts),
      evidence: describeLastError(job, attempts),
      at: job.completedAt,
    },
    ...history,
  ];
}

function verdictOf(job: Job, attempts: readonly Attempt[]): string {
  const { status, reason } = job;
  const last = attempts.at(-1);
  if (status === 'succeeded') {
    const tries = attempts.length > 1 ? ` with attempt ${job.attempt}` : '';
    return `it succeeded${tries}${describeAttemptDuration(last)}`;
  }
  if (status === 'cancelled') return 'it was cancelled';
  if (status === 'skipped') return `it was skipped: ${reason ?? 'no reason'}`;
  if (reason === 'crashes_exhausted') {
    return `the service crashed ${formatCount(job.crashCount, 'time')} while it ran alone, so it is dead`;
  }
  if (reason === 'attempt_failed' || (reason === 'retries_exhausted' && job.maxAttempts === 1)) {
    const what = status === 'timed_out' ? 'timed out' : 'failed';
    return `its only attempt ${what}; no other one is allowed (max_attempts: 1)`;
  }
  if (reason === 'retries_exhausted') {
    const how = status === 'timed_out' ? 'the last one timed out' : 'none is left';
    return `all ${formatCount(job.maxAttempts, 'attempt')} failed, ${how}`;
  }
  if (reason !== null && Object.hasOwn(finals, reason)) return finals[reason] ?? reason;
  const because = reason === null ? '' : ` (${reason})`;
  return `it ended as ${status}${because}, and a retry would not help`;
}

/** The verdicts of jobs that weren't attempted again, by reason. */
const finals: Readonly<Record<string, string>> = {
  plugin_error: 'the plugin reported an error and that a retry would not help',
  exit: 'the plugin ended with an exit code that rules out a retry',
  unknown_command: 'its plugin does not have that command',
  credential: 'a credential that its plugin needs is missing',
  state_too_large: 'its state would have exceeded the size limit',
  settle_error: 'its result could not be recorded',
  no_runner: 'no process has loaded its plugin',
};

function describeLastError({ lastError }: Job, attempts: readonly Attempt[]): string {
  const last = attempts.at(-1);
  if (lastError !== null) return toFirstLine(lastError);
  if (last === undefined) return 'it never started';
  return `attempt ${last.attempt}: ${last.cause}`;
}

/** Describes earlier attempts, with one fact for consecutive ones that ended alike. */
function describeAttempts(attempts: readonly Attempt[], job: Job): ExplanationFact[] {
  const earlier = attempts.slice(0, -1);
  const groups: { attempts: Attempt[]; words: string }[] = [];
  for (const attempt of earlier) {
    const words = `${attempt.status}: ${toFirstLine(attempt.error ?? attempt.cause)}`;
    const group = groups.at(-1);
    if (group?.words === words) group.attempts.push(attempt);
    else groups.push({ attempts: [attempt], words });
  }
  const shown = groups.slice(-GROUPS_MAX).toReversed();
  return shown.map(({ attempts: [first, ...rest], words }) => {
    const numbers = `attempt ${first?.attempt ?? job.attempt}`;
    const last = rest.at(-1);
    const which = last === undefined ? numbers : `${numbers} to ${last.attempt}`;
    return { fact: `${which} ${words}`, evidence: 'job_log', at: (last ?? first)?.completedAt };
  });
}

const GROUPS_MAX = 3;

function describeBreakerState(breaker: BreakerRow | undefined): ExplanationFact[] {
  if (breaker === undefined || breaker.state === 'closed') return [];
  const { fact, evidence, at } = toFindingCause(breakerOpen.describe({ row: breaker }));
  return [{ fact, evidence, at }];
}

function listCommands(facts: JobFacts): string[] {
  const { job, breaker } = facts;
  const { id, status, plugin } = job;
  if (status === 'succeeded') return [`ductile job show ${id}`];
  return [
    ...listRepeatCommands(facts),
    `ductile logs --job ${id}`,
    ...(breaker === undefined || breaker.state === 'closed'
      ? []
      : [`ductile breaker reset ${quoteShell(plugin)}`]),
  ];
}

/** Lists how to repeat the work. A step is repeated by its run, and an init by its plugin. */
function listRepeatCommands({ job, retriedAs, run }: JobFacts): string[] {
  if (retriedAs !== undefined) return [`ductile why ${retriedAs}`];
  if (job.runId !== null) {
    if (run?.revivedAs !== undefined) return [`ductile why ${run.revivedAs}`];
    const isHalted = run === undefined || run.status === 'halted';
    return isHalted ? [`ductile run revive ${job.runId}`] : [`ductile why ${job.runId}`];
  }
  if (job.command === 'init') return [`ductile plugin init ${quoteShell(job.plugin)}`];
  return [`ductile job retry ${job.id}`];
}

/** Describes the CPU time and memory of an attempt, if they were measured. */
function describeUsage(attempt: Attempt | undefined): ExplanationFact[] {
  const { cpuMs = null, memoryPeakBytes = null } = attempt ?? {};
  const parts = [
    ...(cpuMs === null ? [] : [`${formatDuration(cpuMs)} of CPU time`]),
    ...(memoryPeakBytes === null ? [] : [`${formatByteSize(memoryPeakBytes)} of memory at most`]),
  ];
  if (attempt === undefined || parts.length === 0) return [];
  const fact = `attempt ${attempt.attempt} used ${parts.join(' and ')}`;
  return [{ fact, evidence: 'job_log', at: attempt.completedAt }];
}

function describeAttemptDuration(attempt: Attempt | undefined): string {
  if (attempt?.startedAt === undefined || attempt.startedAt === null) return '';
  const ms = fromTimestamp(attempt.completedAt) - fromTimestamp(attempt.startedAt);
  return ` in ${formatDuration(Math.max(0, ms))}`;
}
