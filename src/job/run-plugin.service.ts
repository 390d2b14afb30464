import { createHash } from 'node:crypto';
import { statSync } from 'node:fs';
import type { Plugin } from '../plugin/catalog.ts';
import type { PrewarmPool } from '../plugin/prewarm.ts';
import type { HeldProcess, Host, ProcessSpec } from '../plugin/process.ts';
import { toSpec, type ExecutorOptions } from './executor.service.ts';
import type { Blueprint } from '../engine/generation.ts';
import { makeStandby } from './standby.service.ts';

export interface Runner {
  readonly run: ExecutorOptions['run'];
  /** Starts the processes that wait for requests, and ends those of before; the helper must run. */
  prewarm(blueprint: Pick<Blueprint, 'catalog' | 'environment'>): void;
  stop(): void;
}

/** Runs a plugin in a process that was started ahead where there is one, else in a new one. */
export function makeRunner(host: Host, pool: PrewarmPool): Runner {
  const standby = makeStandby(pool);
  let current: ReadonlyMap<string, Plugin> = new Map();
  // An attempt of an earlier generation must not bring its processes back.
  const isCurrent = (plugin: Plugin): boolean => current.get(plugin.name) === plugin;
  const keep = (plugin: Plugin, spec: ProcessSpec, count: number): string => {
    const fingerprint = fingerprintOf(plugin, spec);
    if (isCurrent(plugin)) pool.keep(plugin.name, { fingerprint, spec, count });
    return fingerprint;
  };
  return {
    run(plugin, spec, request, { traceparent, isAwaited, ...options }) {
      const { name, prewarm } = plugin;
      const runCold = () => {
        // What was started ahead has an environment already.
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
      const end = run(pool.take(name, keep(plugin, spec, prewarm)));
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
        // Its own time-outs count from the request, so which command's they are does not matter here.
        if (prewarm > 0) keep(plugin, toSpec(plugin, '', environment), prewarm);
      }
    },
    stop() {
      standby.clear();
      pool.stop();
    },
  };
}

function fingerprintOf(plugin: Plugin, spec: ProcessSpec): string {
  return `${stamp(plugin)} ${digestOf(spec.env)}`;
}

/** Changes with the plugin's settings and also when its program on disk is replaced or edited. */
function stamp({ fingerprint, entrypoint }: Plugin): string {
  try {
    const { ino, size, mtimeMs } = statSync(entrypoint);
    return `${fingerprint} ${ino} ${size} ${mtimeMs}`;
  } catch {
    // It cannot be seen, so it cannot be started either, and whoever tries is told why.
    return fingerprint;
  }
}

const digests = new WeakMap<ProcessSpec['env'], string>();

/** One environment serves all attempts of a generation; it may hold secrets, which stay here. */
function digestOf(env: ProcessSpec['env']): string {
  let digest = digests.get(env);
  if (digest === undefined) {
    digest = createHash('sha256').update(JSON.stringify(env)).digest('base64url');
    digests.set(env, digest);
  }
  return digest;
}
