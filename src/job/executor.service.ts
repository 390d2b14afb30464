import { toTimestamp } from '../base/clock.ts';
import { DuctileError, messageOf, type ErrorCode } from '../base/errors.ts';
import { isObject, type Json, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { parseJson } from '../base/parse-json.ts';
import { probe } from '../base/probe.ts';
import { bareReport, type AttemptReport } from './attempt.ts';
import { endFailed, endReleased, type Failure, type RetryPolicy } from './outcome.ts';
import { isTerminal } from './job.ts';
import type { ClaimedJob } from './types.ts';
import type { Closing } from '../ledger/commit.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { lookupCommand, type Plugin } from '../plugin/catalog.ts';
import type { ProcessEnd, ProcessSpec, RunOptions } from '../plugin/process.ts';
import { decodeResponse } from '../plugin/protocol.ts';
import { encodeRequest } from '../plugin/request.ts';
import { deliveryEventIn, toEventMetadata, senderOf } from '../signal/signal.ts';
import { arriveFailed } from '../pipeline/run/after-job.service.ts';
import { makeBases, type Base, type Bases } from './base-environment.ts';
import { conclude } from './outcome-of-attempt.service.ts';
import type { Credentials } from '../access/credentials.service.ts';
import { followDeath } from '../pipeline/follow-signal.ts';
import { noConsequences, type FollowRules } from '../pipeline/follow-event.ts';
import type { Generation } from '../engine/generation.ts';
import type { PayloadMask } from '../signal/mask.ts';
import type { GrantAccess } from '../access/attempt-tokens.service.ts';
import { toLogFields } from './settle.service.ts';
import { traceparentOf } from '../insight/spans.service.ts';
import { withoutSecrets } from './unseen-secrets.service.ts';

export interface ExecutorOptions {
  /** Starts the plugin, or hands the request to one that was started ahead, and waits for its end. */
  readonly run: (
    plugin: Plugin,
    spec: ProcessSpec,
    request: Buffer,
    options: AttemptOptions,
  ) => Promise<ProcessEnd>;
  readonly ledger: Pick<Ledger, 'basePayload' | 'stepSignal'>;
  readonly credentials: Pick<Credentials, 'reveal'>;
  /** What an attempt may ask of the API while it runs. */
  readonly grantAccess: GrantAccess;
  /** What signals may show, and what is kept sealed beside them. */
  readonly keep: PayloadMask;
  /** The machine had no room for another process. */
  readonly onHostFull: () => void;
  /** What starts processes starts none, because it has not heard of a heartbeat for too long. */
  readonly onFenced: () => void;
  readonly log: Log;
}

export interface AttemptOptions extends RunOptions {
  /** For the environment of a process that is started for this attempt. */
  readonly traceparent: string;
  /** Whether somebody stays on the line for its end. */
  readonly isAwaited: boolean;
}

export type Execute = (
  job: ClaimedJob,
  signal: AbortSignal,
  generation: Generation,
) => Promise<Closing>;

/** One attempt from its claim to its closing. Every way it can end is a value; it never rejects. */
export function makeExecutor(given: ExecutorOptions): Execute {
  const { ledger } = given;
  const options = { ...given, bases: makeBases((key) => ledger.basePayload(key)) };
  return async (job, signal, generation) => {
    const plugin = generation.catalog.plugins.get(job.plugin);
    if (plugin === undefined || lookupCommand(plugin, job.command) === undefined) {
      return refuse(job, generation.rules);
    }
    try {
      return await attempt(job, plugin, { signal, generation }, options);
    } catch (error) {
      const isUnset = error instanceof DuctileError && Object.hasOwn(unset, error.code);
      if (isUnset) return failUnset(job, plugin, error, generation.rules);
      return release(job, error, options.log);
    }
  };
}

async function attempt(
  job: ClaimedJob,
  plugin: Plugin,
  { signal, generation }: { readonly signal: AbortSignal; readonly generation: Generation },
  options: ExecutorOptions & { readonly bases: Bases },
): Promise<Closing> {
  const { log } = options;
  const { rules, environment } = generation;
  const usual = toSpec(plugin, job.command, environment);
  const traceparent = traceparentOf(job);
  const spec = { ...usual, timeoutMs: job.timeoutMs ?? usual.timeoutMs };
  const base = job.baseKey === null ? undefined : await options.bases(job.baseKey);
  const event = await findStepEvent(job, options);
  const { config, secrets } = await options.credentials.reveal(plugin);
  const deadlineMs = Date.now() + spec.timeoutMs;
  const access = options.grantAccess(job, plugin, deadlineMs);
  const told = { name: plugin.name, config, api: access?.api, traceparent };
  const begin = async (): Promise<ProcessEnd> => {
    const request = toRequest(job, told, deadlineMs, { base, event });
    probe('spawn.before');
    log.debug('attempt started', { ...toLogFields(job), attempt: job.attempt });
    return await options.run(plugin, spec, request, {
      signal,
      onStarted: () => probe('spawn.after'),
      traceparent,
      isAwaited: job.awaitedBy !== null,
    });
  };
  // Whatever goes wrong, from here on nobody has a use for the token.
  const whole = await begin().finally(() => access?.end());
  probe('run.after-exit');
  // Before anything is read from it, so that nothing behind this line has ever seen a value.
  const end = withoutSecrets(whole, access === undefined ? secrets : [...secrets, access.secret]);
  const reply = decodeResponse(end, spec);
  if (reply.kind === 'unstarted' && reply.hostFull) options.onHostFull();
  if (reply.kind === 'fenced') options.onFenced();
  log.debug('attempt ended', { ...toLogFields(job), attempt: job.attempt, how: reply.kind });
  return conclude(
    { job, plugin, reply, end },
    { rules, keep: options.keep, random: Math.random(), nowMs: Date.now() },
  );
}

export function toSpec(
  plugin: Plugin,
  command: string,
  env: Readonly<Record<string, string>>,
): ProcessSpec {
  return {
    entrypoint: plugin.entrypoint,
    cwd: plugin.directory,
    env,
    ...(plugin.isolation === undefined ? {} : { isolation: plugin.isolation }),
    timeoutMs: plugin.timeoutMs(command),
    killGraceMs: limits.killGraceMs,
    drainMs: limits.drainMs,
    stdoutBytesMax: limits.stdoutBytesMax,
    stderrBytesMax: limits.stderrBytesMax,
    limits: plugin.limits,
  };
}

/** What an attempt tells its plugin besides the job. */
interface Told extends Pick<Plugin, 'name' | 'config'> {
  readonly api: JsonObject | undefined;
  readonly traceparent: string;
}

function toRequest(
  job: ClaimedJob,
  plugin: Told,
  deadlineMs: number,
  { base, event }: { readonly base: Base | undefined; readonly event: JsonObject | undefined },
): Buffer {
  const payload = parseJson(job.payload) as Json;
  return encodeRequest({
    jobId: job.id,
    command: job.command,
    instance: plugin.name,
    attempt: job.attempt,
    idempotencyKey: job.idempotencyKey,
    config: plugin.config,
    state: asObject(job.state),
    context: asObject(job.context),
    payload,
    payloadText: job.payload,
    ...(job.runId === null || job.stepId === null
      ? {}
      : {
          step: {
            runId: job.runId,
            stepId: job.stepId,
            beneath: base?.without(isObject(payload) ? Object.keys(payload) : []) ?? NOTHING,
            beneathKeys: base?.keys ?? [],
            event,
          },
        }),
    deadlineAt: toTimestamp(deadlineMs),
    traceparent: plugin.traceparent,
    ...(plugin.api === undefined ? {} : { api: plugin.api }),
  });
}

const NOTHING = Buffer.alloc(0);

/** Describes the event that caused a step as `handle` gets it, without its payload. */
async function findStepEvent(
  { command, runId, branchId, parentJobId, idempotencyKey }: ClaimedJob,
  { ledger }: Pick<ExecutorOptions, 'ledger'>,
): Promise<JsonObject | undefined> {
  if (command !== 'handle' || runId === null || branchId === null) return undefined;
  const signal = await ledger.stepSignal({ runId, branchId, parentJobId, idempotencyKey });
  if (signal === undefined) return undefined;
  const { id, type, source, occurredAt, metadata } = signal;
  const delivery = deliveryEventIn(signal);
  // A plugin's own key is in the metadata: the column has the keys of reported signals.
  const dedupeKey = signal.dedupeKey ?? asObject(metadata)['dedupe_key'];
  return {
    type,
    ...(typeof dedupeKey === 'string' ? { dedupe_key: dedupeKey } : {}),
    source: senderOf(source),
    timestamp: occurredAt,
    event_id: id,
    ...(delivery === undefined ? {} : { metadata: toEventMetadata(delivery) }),
  };
}

function asObject(text: string): JsonObject {
  const value: unknown = parseJson(text);
  return isObject(value) ? value : {};
}

/** The plugin is known here, but not what is asked of it: no further attempt could help. */
function refuse(job: ClaimedJob, rules: FollowRules): Closing {
  const error = `the plugin ${job.plugin} has no command ${job.command}`;
  return failUnstarted(job, bareReport('failed', 'unknown_command', error), rules);
}

/**
 * A credential that is not there is a mistake in the configuration, which trying again does not mend;
 * one that this host has not the key of may open on another.
 */
const unset: Readonly<Partial<Record<ErrorCode, Failure>>> = {
  // Another host may have a tier.
  PLUGIN_NOT_ISOLATED: 'retryable',
  CREDENTIAL_NOT_FOUND: 'final',
  CREDENTIAL_KEY_MISSING: 'retryable',
  CREDENTIAL_KEY_INVALID: 'retryable',
};

function failUnset(
  job: ClaimedJob,
  { retry }: Plugin,
  { code, message, hint }: DuctileError,
  rules: FollowRules,
): Closing {
  const told = hint === undefined ? message : `${message}. ${hint}`;
  const cause = code === 'PLUGIN_NOT_ISOLATED' ? 'spawn' : 'credential';
  return failUnstarted(job, bareReport('failed', cause, told), rules, unset[code], retry);
}

function failUnstarted(
  job: ClaimedJob,
  bare: AttemptReport,
  rules: FollowRules,
  how: Failure = 'final',
  { maxAttempts, backoffBaseMs }: RetryPolicy = { maxAttempts: 1, backoffBaseMs: 0 },
): Closing {
  const report = { ...bare, queueMs: job.queueMs };
  const { error } = report;
  const policy = { maxAttempts, backoffBaseMs: job.backoffMs ?? backoffBaseMs };
  const ending = endFailed(job, report, how, policy, Math.random());
  const consequences = isTerminal(ending.status)
    ? followDeath(job, { ...ending, error }, rules, Date.now())
    : noConsequences();
  const arriving = arriveFailed(job, ending, error);
  return { job, claimToken: job.claimToken, report, ending, ...consequences, ...arriving };
}

/** The helper that starts processes died, or we failed ourselves: nobody is charged. */
function release(job: ClaimedJob, error: unknown, log: Log): Closing {
  const expected = error instanceof DuctileError && error.code === 'SPAWNER_FAILED';
  if (!expected)
    log.error('an attempt met a defect', { ...toLogFields(job), error: messageOf(error) });
  const report = bareReport('released', 'spawner_died', messageOf(error));
  const delayMs = expected ? 0 : RELEASE_DELAY_MS;
  return {
    job,
    claimToken: job.claimToken,
    report: { ...report, queueMs: job.queueMs },
    ending: endReleased(job, delayMs),
    signals: [],
    jobs: [],
  };
}

/** A defect of our own must not spin. */
const RELEASE_DELAY_MS = 10_000;
