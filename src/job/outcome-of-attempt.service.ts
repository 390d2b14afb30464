import type { AttemptReport, AttemptStatus, AttemptCause } from './attempt.ts';
import { endCancelled, endFailed, endReleased, endSucceeded, type Ending } from './outcome.ts';
import { isTerminal } from './job.ts';
import type { ClaimedJob, StateChange } from './types.ts';
import type { Closing } from '../ledger/commit.ts';
import type { Plugin } from '../plugin/catalog.ts';
import { addResult, toStorable } from '../plugin/response.ts';
import type { ProcessEnd } from '../plugin/process.ts';
import type { Reply } from '../plugin/protocol.ts';
import { arriveDone, arriveFailed } from '../pipeline/run/after-job.service.ts';
import { followDeath, followSuccess } from '../pipeline/follow-signal.ts';
import {
  noConsequences,
  type SignalConsequences,
  type FollowRules,
} from '../pipeline/follow-event.ts';
import type { PayloadMask } from '../signal/mask.ts';

/** How long a job waits when the machine had no room to start it. */
export const HOST_FULL_DELAY_MS = 1000;

/** An ended attempt, with all that was seen of it. */
export interface EndedAttempt {
  readonly job: ClaimedJob;
  readonly plugin: Plugin;
  readonly reply: Reply;
  /** Undefined when no process was ever started. */
  readonly end: ProcessEnd | undefined;
}

export interface ConcludeInput {
  readonly rules: FollowRules;
  /** What signals may show; nothing is sealed unless told. */
  readonly keep?: PayloadMask;
  readonly random: number;
  readonly nowMs: number;
}

/** What an attempt's end means for its job, and everything that follows from it. */
export function conclude(attempt: EndedAttempt, input: ConcludeInput): Closing {
  const { job, plugin, reply } = attempt;
  const report = toReport(attempt);
  const ending = toEnding(attempt, report, input.random);
  const closing = { job, claimToken: job.claimToken, report, ending };
  if (reply.kind === 'ok') {
    const state = toStateChange(plugin, job.command, reply);
    const events = addResult(reply.events, reply.result);
    const followed = followSuccess(job, { ...reply, events }, input.rules, input.nowMs, input.keep);
    const payloads = events.map(({ payload }) => payload);
    return {
      ...closing,
      ...followed,
      ...(state === undefined ? {} : { state }),
      ...arriveDone(job, payloads, reply.result),
    };
  }
  return {
    ...closing,
    ...deathOf(job, ending, report.error, input),
    ...arriveFailed(job, ending, report.error),
  };
}

/** The consequences of an end that is final and not a success; none of a cancellation. */
function deathOf(
  job: ClaimedJob,
  ending: Ending,
  error: string | null,
  { rules, nowMs }: ConcludeInput,
): SignalConsequences {
  if (!isTerminal(ending.status) || ending.status === 'cancelled') return noConsequences();
  return followDeath(job, { ...ending, error }, rules, nowMs);
}

const ends: Readonly<Record<Reply['kind'], readonly [AttemptStatus, AttemptCause]>> = {
  ok: ['succeeded', 'ok'],
  error: ['failed', 'plugin_error'],
  timeout: ['timed_out', 'timeout'],
  signal: ['failed', 'signal'],
  exit: ['failed', 'exit'],
  protocol: ['failed', 'protocol'],
  memory: ['failed', 'out_of_memory'],
  processes: ['failed', 'process_limit'],
  cpu: ['failed', 'cpu_limit'],
  file_size: ['failed', 'file_size_limit'],
  unstarted: ['failed', 'spawn'],
  fenced: ['released', 'fenced'],
  cancelled: ['cancelled', 'cancelled'],
  shutdown: ['released', 'shutdown'],
};

function toReport({ job, reply, end }: EndedAttempt): AttemptReport {
  const hostFull = reply.kind === 'unstarted' && reply.hostFull;
  const [status, cause] = hostFull ? (['released', 'host_full'] as const) : ends[reply.kind];
  const stderr = end === undefined ? '' : toStorable(end.stderr.toString());
  return {
    status,
    cause,
    error: reply.kind === 'ok' ? null : reply.message,
    result: reply.raw === '' ? null : reply.raw,
    stderr: stderr === '' ? null : stderr,
    stderrTruncated: end?.stderrTruncated ?? false,
    exitCode: end?.exit.kind === 'exited' ? end.exit.code : null,
    signal: end?.exit.kind === 'signalled' ? end.exit.signal : null,
    pid: end?.pid ?? null,
    queueMs: job.queueMs,
    spawnMs: end === undefined ? null : Math.round(end.spawnMs),
    runMs: end === undefined ? null : Math.round(end.runMs),
    cpuMs: roundOrNull(end?.cpuMs),
    memoryPeakBytes: end?.memoryPeakBytes ?? null,
    settleMs: null,
  };
}

function roundOrNull(value: number | undefined): number | null {
  return value === undefined ? null : Math.round(value);
}

function toEnding(
  { job, plugin, reply }: EndedAttempt,
  report: AttemptReport,
  random: number,
): Ending {
  if (reply.kind === 'ok') return endSucceeded(job);
  if (reply.kind === 'cancelled') return endCancelled(job);
  if (report.status === 'released') {
    return endReleased(job, report.cause === 'host_full' ? HOST_FULL_DELAY_MS : 0);
  }
  const { maxAttempts, backoffBaseMs } = plugin.retry;
  const atLeastMs = reply.kind === 'error' ? reply.retryAfterMs : undefined;
  const policy = { maxAttempts, backoffBaseMs: job.backoffMs ?? backoffBaseMs, atLeastMs };
  return endFailed(job, report, reply.retry ? 'retryable' : 'final', policy, random);
}

/** A snapshot that the manifest declares is a fact; anything else is merged into the state. */
function toStateChange(
  { manifest }: Plugin,
  command: string,
  reply: Extract<Reply, { kind: 'ok' }>,
): StateChange | undefined {
  if (reply.stateUpdates === undefined) return undefined;
  const value = JSON.stringify(reply.stateUpdates);
  const rule = manifest.factOutputs.find((output) => output.command === command);
  if (rule === undefined) return { kind: 'merge', value };
  const mirror = rule.compatibilityView === 'mirror_object';
  return { kind: 'snapshot', factType: rule.factType, mirror, value };
}
