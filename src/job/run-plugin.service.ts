import { createHash } from 'node:crypto';
import { statSync } from 'node:fs';
import { monotonicMs } from '../base/clock.ts';
import type { Json } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { makeValueMask, type KnownSecret, type ValueMask } from '../base/mask-values.ts';
import { parseJson } from '../base/parse-json.ts';
import type { Blueprint } from '../engine/generation.ts';
import type { Plugin } from '../plugin/catalog.ts';
import type { PrewarmPool, PrewarmTarget } from '../plugin/prewarm.ts';
import type { HeldProcess, Host, ProcessEnd, ProcessSpec, RunOptions } from '../plugin/process.ts';

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
  const keep = (plugin: Plugin, spec: ProcessSpec, count: number): string => {
    const fingerprint = fingerprintOf(plugin, spec);
    if (isCurrent(plugin)) pool.setTarget(plugin.name, { fingerprint, spec, count });
    return fingerprint;
  };
  return {
    run(plugin, spec, request, { traceparent, isAwaited, ...options }) {
      const { name, prewarm } = plugin;
      const runCold = () => {
        // Only here: a prewarmed process has its environment already.
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
      const end = run(pool.claim(name, keep(plugin, spec, prewarm)));
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
        if (prewarm > 0) keep(plugin, toSpec(plugin, '', environment), prewarm);
      }
    },
    stop() {
      standby.clear();
      pool.stop();
    },
  };
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

function fingerprintOf(plugin: Plugin, spec: ProcessSpec): string {
  return `${stamp(plugin)} ${digestEnvironment(spec.env)}`;
}

/** Changes with the plugin's settings, and when its program on disk is replaced or edited. */
function stamp({ fingerprint, entrypoint }: Plugin): string {
  try {
    const { ino, size, mtimeMs } = statSync(entrypoint);
    return `${fingerprint} ${ino} ${size} ${mtimeMs}`;
  } catch {
    // The program can't be started either; the attempt that tries reports why.
    return fingerprint;
  }
}

const digests = new WeakMap<ProcessSpec['env'], string>();

/** All attempts of a generation share one environment. It can hold secrets, so only a digest leaves. */
function digestEnvironment(env: ProcessSpec['env']): string {
  let digest = digests.get(env);
  if (digest === undefined) {
    digest = createHash('sha256').update(JSON.stringify(env)).digest('base64url');
    digests.set(env, digest);
  }
  return digest;
}

/** The process that could wait for the next request. It is computed only if one is needed. */
type NextProcess = () => Omit<PrewarmTarget, 'count'>;

/**
 * Keeps one process of a plugin ready after callers have waited for it twice within a minute: they will
 * probably wait again. The process starts when no attempt of the plugin runs, because among several
 * attempts it would only take CPU time from those that callers wait for.
 */
interface Standby {
  /** An attempt starts: returns the process that is ready. */
  begin(plugin: string, next: NextProcess, isAwaited: boolean): HeldProcess | undefined;
  /** An attempt has ended. Without `next`, its plugin needs no process any more. */
  end(plugin: string, next: NextProcess | undefined): void;
  /** Ends the processes that are ready. */
  clear(): void;
}

interface StandbyState {
  running: number;
  awaitedAt: number;
  /** Until when one process is kept ready. In the past if no caller has waited twice. */
  until: number;
  isReady: boolean;
  timer: NodeJS.Timeout | undefined;
}

function makeStandby(pool: Pick<PrewarmPool, 'setTarget' | 'drop' | 'claim'>): Standby {
  const states = new Map<string, StandbyState>();

  /** Each plugin has one timer: each attempt moves `until`. */
  const watch = (plugin: string, state: StandbyState): void => {
    const leftMs = state.until - monotonicMs();
    if (leftMs > 0) {
      state.timer = setTimeout(() => watch(plugin, state), leftMs).unref();
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
      if (state.timer === undefined) watch(plugin, state);
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

/** Masks the secrets that a process was given in everything that it printed. */
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
