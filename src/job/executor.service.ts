import type { GrantAccess, Credentials } from '../access/credentials.service.ts';
import { DuctileError, messageOf, type ErrorCode } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { probe } from '../base/probe.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { Generation } from '../engine/generation.ts';
import type { Closing } from '../ledger/commit.ts';
import { followDeath, followSuccess, noConsequences } from '../pipeline/follow-job.ts';
import type { FollowRules, SignalConsequences } from '../pipeline/follow-rules.ts';
import { findPluginCommand, type Plugin } from '../plugin/catalog.ts';
import type { ProcessEnd } from '../plugin/process.ts';
import { decodeResponse, type Reply } from '../plugin/protocol.ts';
import { addResult, toStorable } from '../plugin/response.ts';
import type { PayloadMask } from '../signal/mask.ts';
import {
  createBareReport,
  type AttemptCause,
  type AttemptReport,
  type AttemptStatus,
} from './attempt.ts';
import { isTerminal, traceparentOf } from './job.ts';
import {
  endAsCancelled,
  endAsFailed,
  endAsReleased,
  endAsSucceeded,
  type Ending,
  type Failure,
  type RetryPolicy,
} from './outcome.ts';
import {
  makeBasePayloads,
  prepareRequest,
  type BasePayloads,
  type RequestLedger,
  maskOutputSecrets,
  toSpec,
  type Runner,
} from './run-plugin.service.ts';
import { toLogFields } from './settle.service.ts';
import type { ClaimedJob, StateChange } from './types.ts';

export type Execute = (
  job: ClaimedJob,
  signal: AbortSignal,
  generation: Generation,
) => Promise<Closing>;

/** The services that an attempt uses. */
interface AttemptServices {
  readonly ledger: RequestLedger;
  readonly runner: Pick<Runner, 'run'>;
  readonly credentials: Pick<Credentials, 'reveal'>;
  /** Creates the token with which a plugin may call the API during its attempt. */
  readonly grantAccess: GrantAccess;
  readonly mask: PayloadMask;
  readonly bases: BasePayloads;
  readonly log: Log;
}

/**
 * Creates the function that executes one attempt, from its claim to its closing. Every way in which an
 * attempt can end is a value: the function never rejects. `settle.service.ts` writes the closing.
 */
export function makeExecutor(
  context: LedgerContext,
  runner: Pick<Runner, 'run'>,
  credentials: Pick<Credentials, 'reveal'>,
  grantAccess: GrantAccess,
  mask: PayloadMask,
): Execute {
  const { ledger } = context;
  const log = context.log.child('executor');
  const services: AttemptServices = {
    ledger,
    runner,
    credentials,
    grantAccess,
    mask,
    bases: makeBasePayloads((key) => ledger.runs.readBasePayload(key)),
    log,
  };
  return async (job, signal, generation) => {
    const plugin = generation.catalog.plugins.get(job.plugin);
    if (plugin === undefined || findPluginCommand(plugin, job.command) === undefined) {
      return closeUnknownCommand(job, generation.rules);
    }
    try {
      return await executeAttempt(job, plugin, { signal, generation }, services);
    } catch (error) {
      const isSetup = error instanceof DuctileError && Object.hasOwn(setupFailures, error.code);
      if (isSetup) return closeSetupFailure(job, plugin, error, generation.rules);
      return closeReleased(job, error, log);
    }
  };
}

async function executeAttempt(
  job: ClaimedJob,
  plugin: Plugin,
  { signal, generation }: { readonly signal: AbortSignal; readonly generation: Generation },
  { ledger, runner, credentials, grantAccess, mask, bases, log }: AttemptServices,
): Promise<Closing> {
  const { rules, environment } = generation;
  const usual = toSpec(plugin, job.command, environment);
  const spec = { ...usual, timeoutMs: job.timeoutMs ?? usual.timeoutMs };
  const encode = await prepareRequest(job, ledger, bases);
  const { config, secrets } = await credentials.reveal(plugin);
  const deadlineMs = Date.now() + spec.timeoutMs;
  const access = grantAccess(job, plugin, deadlineMs);
  const traceparent = traceparentOf(job);
  const run = async (): Promise<ProcessEnd> => {
    const request = encode({ plugin, config, api: access?.api, traceparent, deadlineMs });
    probe('spawn.before');
    log.debug('attempt started', { ...toLogFields(job), attempt: job.attempt });
    return await runner.run(plugin, spec, request, {
      signal,
      onStarted: () => probe('spawn.after'),
      traceparent,
      isAwaited: job.awaitedBy !== null,
    });
  };
  // The token is revoked with the end of the process, even if the process failed to start.
  const unmasked = await run().finally(() => access?.end());
  probe('run.after-exit');
  // Mask before anything is read from the output, so that no later code sees a secret.
  const end = maskOutputSecrets(
    unmasked,
    access === undefined ? secrets : [...secrets, access.secret],
  );
  const reply = decodeResponse(end, spec);
  log.debug('attempt ended', { ...toLogFields(job), attempt: job.attempt, how: reply.kind });
  return closeAttempt(
    { job, plugin, reply, end },
    { rules, mask, random: Math.random(), nowMs: Date.now() },
  );
}

/** An attempt whose process has ended. */
export interface EndedAttempt {
  readonly job: ClaimedJob;
  readonly plugin: Plugin;
  readonly reply: Reply;
  /** Undefined if no process was started. */
  readonly end: ProcessEnd | undefined;
}

export interface ClosingRules {
  readonly rules: FollowRules;
  /** Seals the masked values of signals. Without it, they are lost. */
  readonly mask?: PayloadMask;
  readonly random: number;
  readonly nowMs: number;
}

/** Decides what the end of an attempt means for its job, and drafts everything that follows from it. */
export function closeAttempt(attempt: EndedAttempt, input: ClosingRules): Closing {
  const { job, plugin, reply } = attempt;
  const report = toReport(attempt);
  const ending = toEnding(attempt, report, input.random);
  const closing = { job, claimToken: job.claimToken, report, ending };
  if (reply.kind === 'ok') {
    const state = toStateChange(plugin, job.command, reply);
    const events = addResult(reply.events, reply.result);
    const payloads = events.map(({ payload }) => payload);
    const followed = followSuccess(job, { ...reply, events }, input.rules, input.nowMs, input.mask);
    return {
      ...closing,
      ...followed,
      ...(state === undefined ? {} : { state }),
      ...(job.branchId === null ? {} : { output: { events: payloads, result: reply.result } }),
    };
  }
  return { ...closing, ...followEnding(job, ending, report.error, input) };
}

/** Drafts what follows from a final end that is neither a success nor a cancellation. */
function followEnding(
  job: ClaimedJob,
  ending: Ending,
  error: string | null,
  { rules, nowMs }: Pick<ClosingRules, 'rules' | 'nowMs'>,
): SignalConsequences {
  if (!isTerminal(ending.status) || ending.status === 'cancelled') return noConsequences();
  return followDeath(job, { ...ending, error }, rules, nowMs);
}

const statusByReply: Readonly<Record<Reply['kind'], readonly [AttemptStatus, AttemptCause]>> = {
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
  const [status, cause] = hostFull
    ? (['released', 'host_full'] as const)
    : statusByReply[reply.kind];
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

/** The delay of a job that the host could not start for lack of processes or memory. */
export const HOST_FULL_DELAY_MS = 1000;

function toEnding(
  { job, plugin, reply }: EndedAttempt,
  report: AttemptReport,
  random: number,
): Ending {
  if (reply.kind === 'ok') return endAsSucceeded(job);
  if (reply.kind === 'cancelled') return endAsCancelled(job);
  if (report.status === 'released') {
    return endAsReleased(job, report.cause === 'host_full' ? HOST_FULL_DELAY_MS : 0);
  }
  const { maxAttempts, backoffBaseMs } = plugin.retry;
  const atLeastMs = reply.kind === 'error' ? reply.retryAfterMs : undefined;
  const policy = { maxAttempts, backoffBaseMs: job.backoffMs ?? backoffBaseMs, atLeastMs };
  return endAsFailed(job, report, reply.retry ? 'retryable' : 'final', policy, random);
}

/** A snapshot that the manifest declares becomes a fact. Other updates are merged into the state. */
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

/** Closes an attempt whose plugin has no such command. A retry doesn't help. */
function closeUnknownCommand(job: ClaimedJob, rules: FollowRules): Closing {
  const error = `the plugin ${job.plugin} has no command ${job.command}`;
  return closeUnstarted(job, createBareReport('failed', 'unknown_command', error), rules);
}

/**
 * Errors before the process starts. A missing credential is a mistake in the configuration, so a retry
 * doesn't help. Another host may have the key that this one lacks, or the isolation tier.
 */
const setupFailures: Readonly<Partial<Record<ErrorCode, Failure>>> = {
  PLUGIN_NOT_ISOLATED: 'retryable',
  CREDENTIAL_NOT_FOUND: 'final',
  CREDENTIAL_KEY_MISSING: 'retryable',
  CREDENTIAL_KEY_INVALID: 'retryable',
};

function closeSetupFailure(
  job: ClaimedJob,
  { retry }: Plugin,
  { code, message, hint }: DuctileError,
  rules: FollowRules,
): Closing {
  const error = hint === undefined ? message : `${message}. ${hint}`;
  const cause = code === 'PLUGIN_NOT_ISOLATED' ? 'spawn' : 'credential';
  return closeUnstarted(
    job,
    createBareReport('failed', cause, error),
    rules,
    setupFailures[code],
    retry,
  );
}

function closeUnstarted(
  job: ClaimedJob,
  bare: AttemptReport,
  rules: FollowRules,
  failure: Failure = 'final',
  { maxAttempts, backoffBaseMs }: RetryPolicy = { maxAttempts: 1, backoffBaseMs: 0 },
): Closing {
  const report = { ...bare, queueMs: job.queueMs };
  const { error } = report;
  const policy = { maxAttempts, backoffBaseMs: job.backoffMs ?? backoffBaseMs };
  const ending = endAsFailed(job, report, failure, policy, Math.random());
  const consequences = followEnding(job, ending, error, { rules, nowMs: Date.now() });
  return { job, claimToken: job.claimToken, report, ending, ...consequences };
}

/** Closes an attempt that failed because the spawner died or Ductile has a defect. It isn't charged. */
function closeReleased(job: ClaimedJob, error: unknown, log: Log): Closing {
  const isExpected = error instanceof DuctileError && error.code === 'SPAWNER_FAILED';
  if (!isExpected) {
    log.error('an attempt failed because of a defect in Ductile', {
      ...toLogFields(job),
      error: messageOf(error),
    });
  }
  const report = createBareReport('released', 'spawner_died', messageOf(error));
  const delayMs = isExpected ? 0 : DEFECT_DELAY_MS;
  return {
    job,
    claimToken: job.claimToken,
    report: { ...report, queueMs: job.queueMs },
    ending: endAsReleased(job, delayMs),
    signals: [],
    jobs: [],
  };
}

/** Prevents that a job that meets a defect is claimed in a tight loop. */
const DEFECT_DELAY_MS = 10_000;
