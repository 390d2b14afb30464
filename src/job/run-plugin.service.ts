import { createHash } from 'node:crypto';
import { statSync } from 'node:fs';
import { monotonicMs, toTimestamp } from '../base/clock.ts';
import { compact, isObject, type Json, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { makeValueMask, type KnownSecret, type ValueMask } from '../base/mask-values.ts';
import { parseJson } from '../base/parse-json.ts';
import type { Blueprint } from '../engine/generation.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import type { Plugin } from '../plugin/catalog.ts';
import type { PrewarmPool, PrewarmTarget } from '../plugin/prewarm.ts';
import type { HeldProcess, Host, ProcessEnd, ProcessSpec, RunOptions } from '../plugin/process.ts';
import { encodeRequest } from '../plugin/protocol.ts';
import { deliveryEventIn, senderOf, toEventMetadata } from '../signal/signal.ts';
import type { ClaimedJob } from './types.ts';

export type RequestLedger = LedgerSubset<'runs.readBasePayload' | 'runs.findStepSignal'>;

/** The parts of a request that are known only when the process starts. */
export interface RequestStart {
  readonly plugin: Plugin;
  /** The plugin's configuration with its credentials filled in. */
  readonly config: Plugin['config'];
  readonly api: JsonObject | undefined;
  readonly traceparent: string;
  readonly deadlineMs: number;
}

/** Reads the parts of a job's request that are in the ledger. Returns the function that encodes it. */
export async function prepareRequest(
  job: ClaimedJob,
  ledger: RequestLedger,
  bases: BasePayloads,
): Promise<(start: RequestStart) => Buffer> {
  const base = job.baseKey === null ? undefined : await bases(job.baseKey);
  const event = await findStepEvent(job, ledger);
  return ({ plugin, config, api, traceparent, deadlineMs }) => {
    const payload = parseJson(job.payload) as Json;
    return encodeRequest({
      jobId: job.id,
      command: job.command,
      instance: plugin.name,
      attempt: job.attempt,
      idempotencyKey: job.idempotencyKey,
      config,
      state: parseObject(job.state),
      context: parseObject(job.context),
      payload,
      payloadText: job.payload,
      ...(job.runId === null || job.stepId === null
        ? {}
        : {
            step: {
              runId: job.runId,
              stepId: job.stepId,
              beneath: base?.without(isObject(payload) ? Object.keys(payload) : []) ?? NO_MEMBERS,
              beneathKeys: base?.keys ?? [],
              event,
            },
          }),
      deadlineAt: toTimestamp(deadlineMs),
      traceparent,
      ...compact({ api }),
    });
  };
}

const NO_MEMBERS = Buffer.alloc(0);

/** Describes the event that caused a step, as `handle` gets it, without the payload. */
async function findStepEvent(
  { command, runId, branchId, parentJobId, idempotencyKey }: ClaimedJob,
  ledger: RequestLedger,
): Promise<JsonObject | undefined> {
  if (command !== 'handle' || runId === null || branchId === null) return undefined;
  const signal = await ledger.runs.findStepSignal({ runId, branchId, parentJobId, idempotencyKey });
  if (signal === undefined) return undefined;
  const { id, type, source, occurredAt, metadata } = signal;
  const delivery = deliveryEventIn(signal);
  // The key of a plugin's event is in the metadata. The column has the keys of reported signals.
  const dedupeKey = signal.dedupeKey ?? parseObject(metadata)['dedupe_key'];
  return {
    type,
    ...(typeof dedupeKey === 'string' ? { dedupe_key: dedupeKey } : {}),
    source: senderOf(source),
    timestamp: occurredAt,
    event_id: id,
    ...(delivery === undefined ? {} : { metadata: toEventMetadata(delivery) }),
  };
}

function parseObject(text: string): JsonObject {
  const value: unknown = parseJson(text);
  return isObject(value) ? value : {};
}

/** Runs a plugin process with one request and resolves when the process has ended. */
export type RunPlugin = (
  plugin: Plugin,
  spec: ProcessSpec,
  request: Buffer,
  options: AttemptOptions,
) => Promise<ProcessEnd>;

export interface AttemptOptions extends RunOptions {
  /** For the environment of a process that is started for this attempt. */
  readonly traceparent: string;
  /** A caller waits for the end of the job. */
  readonly isAwaited: boolean;
}

export interface Runner {
  readonly run: RunPlugin;
  /** Starts the prewarmed processes of a generation and ends those of the one before. */
  prewarm(blueprint: Pick<Blueprint, 'catalog' | 'environment'>): void;
  stop(): void;
}

/** Creates a runner that uses a prewarmed process if there is one, and starts a new one otherwise. */
export function makeRunner(host: Host, pool: PrewarmPool): Runner {
  const standby = makeStandby(pool);
  let current: ReadonlyMap<string, Plugin> = new Map();
  // An attempt of an earlier generation must not bring back that generation's processes.
  const isCurrent = (plugin: Plugin): boolean => current.get(plugin.name) === plugin;
  const setTarget = (plugin: Plugin, spec: ProcessSpec, count: number): string => {
    const fingerprint = fingerprintOf(plugin, spec);
    if (isCurrent(plugin)) pool.setTarget(plugin.name, { fingerprint, spec, count });
    return fingerprint;
  };
  return {
    run(plugin, spec, request, { traceparent, isAwaited, ...options }) {
      const { name, prewarm } = plugin;
      const runCold = () => {
        // A prewarmed process already has its environment, so only a new one gets the trace.
        const env = { ...spec.env, TRACEPARENT: traceparent };
        return host.run({ ...spec, env }, request, options);
      };
      const run = (held: HeldProcess | undefined) =>
        held?.feed(request, { ...options, timeoutMs: spec.timeoutMs }) ?? runCold();
      if (prewarm === 0) return runCold();
      if (prewarm === undefined) {
        const next = () => ({ fingerprint: fingerprintOf(plugin, spec), spec });
        const end = run(standby.begin(name, next, isAwaited));
        return end.finally(() => standby.end(name, isCurrent(plugin) ? next : undefined));
      }
      const end = run(pool.claim(name, setTarget(plugin, spec, prewarm)));
      return end.finally(() => pool.ended());
    },
    prewarm({ catalog, environment }) {
      const before = current;
      current = catalog.plugins;
      standby.clear();
      for (const { name, prewarm = 0 } of before.values()) {
        if (prewarm > 0 && (current.get(name)?.prewarm ?? 0) === 0) pool.drop(name);
      }
      for (const plugin of current.values()) {
        const { prewarm = 0 } = plugin;
        // Timeouts count from the request, so the command of this spec doesn't matter.
        if (prewarm > 0) setTarget(plugin, toSpec(plugin, '', environment), prewarm);
      }
    },
    stop() {
      standby.clear();
      pool.stop();
    },
  };
}

/** Describes the process that an attempt of a command needs. */
export function toSpec(
  plugin: Plugin,
  command: string,
  env: Readonly<Record<string, string>>,
): ProcessSpec {
  return {
    entrypoint: plugin.entrypoint,
    cwd: plugin.directory,
    env,
    ...compact({ isolation: plugin.isolation }),
    timeoutMs: plugin.timeoutMs(command),
    killGraceMs: limits.killGraceMs,
    drainMs: limits.drainMs,
    stdoutBytesMax: limits.stdoutBytesMax,
    stderrBytesMax: limits.stderrBytesMax,
    limits: plugin.limits,
  };
}

function fingerprintOf(plugin: Plugin, spec: ProcessSpec): string {
  return `${stampProgram(plugin)} ${digestEnvironment(spec.env)}`;
}

/** Returns a text that changes with the plugin's settings and with its program on disk. */
function stampProgram({ fingerprint, entrypoint }: Plugin): string {
  try {
    const { ino, size, mtimeMs } = statSync(entrypoint);
    return `${fingerprint} ${ino} ${size} ${mtimeMs}`;
  } catch {
    // The program can't be started either. The attempt that tries it reports why.
    return fingerprint;
  }
}

const digests = new WeakMap<ProcessSpec['env'], string>();

/** Returns a digest, because the environment can contain secrets. A generation has one environment. */
function digestEnvironment(env: ProcessSpec['env']): string {
  let digest = digests.get(env);
  if (digest === undefined) {
    digest = createHash('sha256').update(JSON.stringify(env)).digest('base64url');
    digests.set(env, digest);
  }
  return digest;
}

/** Masks the secrets of a process in everything that it printed. */
export function maskOutputSecrets(end: ProcessEnd, secrets: readonly KnownSecret[]): ProcessEnd {
  if (secrets.length === 0) return end;
  const mask = makeValueMask(secrets);
  const stdout = maskOutput(end.stdout, end.stdoutOverflowed, mask);
  const stderr = maskBytes(end.stderr, end.stderrTruncated, mask);
  return { ...end, stdout, stderr };
}

/** Masks JSON by its values: JSON can spell a value in more ways than a text search finds. */
function maskOutput(output: Buffer, isCut: boolean, mask: ValueMask): Buffer {
  const text = output.toString();
  const value = isCut ? undefined : findJson(text);
  if (value === undefined) return maskBytes(output, isCut, mask);
  const masked = mask.json(value);
  const isClean = Object.is(masked, value) && mask.text(text) === text;
  return isClean ? output : Buffer.from(JSON.stringify(masked));
}

function maskBytes(output: Buffer, isCut: boolean, mask: ValueMask): Buffer {
  const text = output.toString();
  const masked = isCut ? mask.cutText(text) : mask.text(text);
  return masked === text ? output : Buffer.from(masked);
}

function findJson(text: string): Json | undefined {
  try {
    return parseJson(text) as Json;
  } catch {
    return undefined;
  }
}

/** The payload that the branches of a block share. It is kept as bytes: it can be large. */
export interface BasePayload {
  /** The names of its members. */
  readonly keys: readonly string[];
  /** Returns its members except those with these names, as JSON without the braces. */
  without(keys: readonly string[]): Buffer;
}

export type BasePayloads = (key: string) => Promise<BasePayload>;

/** Creates a cache. A base payload never changes, so the jobs of all branches share one read. */
export function makeBasePayloads(read: (key: string) => Promise<string>): BasePayloads {
  const cached = new Map<string, Promise<BasePayload>>();

  const load = async (key: string): Promise<BasePayload> => {
    try {
      return toBasePayload(await read(key));
    } catch (error) {
      cached.delete(key);
      throw error;
    }
  };

  return (key) => {
    const base = cached.get(key) ?? load(key);
    // Insert it again at the end, so that the least recently used entry is evicted first.
    cached.delete(key);
    cached.set(key, base);
    for (const oldest of cached.keys()) {
      if (cached.size <= limits.basePayloadsMax) break;
      cached.delete(oldest);
    }
    return base;
  };
}

/** Caches the bytes for the latest keys, because branches of one block mostly have the same keys. */
function toBasePayload(text: string): BasePayload {
  const value: unknown = parseJson(text);
  const members = isObject(value) ? value : {};
  let latest: { readonly keys: string; readonly bytes: Buffer } | undefined;
  return {
    keys: Object.keys(members),
    without(keys) {
      const wanted = JSON.stringify(keys);
      if (latest?.keys !== wanted) {
        const left = Object.entries(members).filter(([name]) => !keys.includes(name));
        const inner = JSON.stringify(Object.fromEntries(left)).slice(1, -1);
        latest = { keys: wanted, bytes: Buffer.from(inner) };
      }
      return latest.bytes;
    },
  };
}

/** Returns the process that could wait for the next request. Called only if one is needed. */
type NextProcess = () => Omit<PrewarmTarget, 'count'>;

/**
 * Keeps one process of a plugin ready after callers have waited for it twice within a minute: they will
 * probably wait again. The process starts when no attempt of the plugin runs. Otherwise it would take
 * CPU time from the attempts for which callers wait.
 */
interface Standby {
  /** Reports the start of an attempt. Returns the process that is ready, if any. */
  begin(plugin: string, next: NextProcess, isAwaited: boolean): HeldProcess | undefined;
  /** Reports the end of an attempt. Without `next`, its plugin needs no process any more. */
  end(plugin: string, next: NextProcess | undefined): void;
  /** Ends the processes that are ready. */
  clear(): void;
}

interface StandbyState {
  running: number;
  awaitedAt: number;
  /** When the process is dropped. In the past if no caller has waited twice. */
  until: number;
  isReady: boolean;
  timer: NodeJS.Timeout | undefined;
}

function makeStandby(pool: Pick<PrewarmPool, 'setTarget' | 'drop' | 'claim'>): Standby {
  const states = new Map<string, StandbyState>();

  /** Drops the process when its time is over. One timer per plugin is enough: attempts move `until`. */
  const dropLater = (plugin: string, state: StandbyState): void => {
    const leftMs = state.until - monotonicMs();
    if (leftMs > 0) {
      state.timer = setTimeout(() => dropLater(plugin, state), leftMs).unref();
      return;
    }
    Object.assign(state, noStandby);
    pool.drop(plugin);
  };

  return {
    begin(plugin, next, isAwaited) {
      const state = states.get(plugin) ?? { running: 0, ...noStandby };
      states.set(plugin, state);
      state.running += 1;
      if (isAwaited) noteAwaited(state);
      if (!state.isReady) return undefined;
      state.isReady = false;
      const want = next();
      const held = pool.claim(plugin, want.fingerprint);
      pool.setTarget(plugin, { ...want, count: 0 });
      return held;
    },
    end(plugin, next) {
      const state = states.get(plugin);
      if (state === undefined) return;
      state.running -= 1;
      if (next === undefined || state.running > 0 || monotonicMs() >= state.until) return;
      state.isReady = true;
      pool.setTarget(plugin, { ...next(), count: 1 });
      if (state.timer === undefined) dropLater(plugin, state);
    },
    clear() {
      for (const [plugin, state] of states) {
        clearTimeout(state.timer);
        if (state.timer !== undefined) pool.drop(plugin);
        Object.assign(state, noStandby);
      }
    },
  };
}

const noStandby: Omit<StandbyState, 'running'> = {
  awaitedAt: -Infinity,
  until: -Infinity,
  isReady: false,
  timer: undefined,
};

function noteAwaited(state: StandbyState): void {
  const now = monotonicMs();
  if (now - state.awaitedAt < limits.standbyMs) state.until = now + limits.standbyMs;
  state.awaitedAt = now;
}
