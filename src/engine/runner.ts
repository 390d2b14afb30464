import { createHash } from 'node:crypto';
import { statSync } from 'node:fs';
import type { Plugin } from '../plugin/catalog.ts';
import type { PrewarmPool } from '../plugin/prewarm.ts';
import type { Host, ProcessSpec } from '../plugin/process.ts';
import { toSpec, type ExecutorOptions } from './executor.ts';
import type { Blueprint } from './generation.ts';

export interface Runner {
  readonly run: ExecutorOptions['run'];
  /** Starts the processes that wait for requests, and ends those of before; the helper must run. */
  prewarm(blueprint: Pick<Blueprint, 'catalog' | 'environment'>): void;
  stop(): void;
}

/** Runs a plugin in a process that was started ahead where there is one, else in a new one. */
export function makeRunner(host: Host, pool: PrewarmPool): Runner {
  let warm: ReadonlyMap<string, Plugin> = new Map();
  const keep = (plugin: Plugin, spec: ProcessSpec): string => {
    const fingerprint = `${stamp(plugin)} ${digestOf(spec.env)}`;
    // An attempt of an earlier generation must not bring its processes back.
    if (warm.get(plugin.name) === plugin) {
      pool.keep(plugin.name, { fingerprint, spec, count: plugin.prewarm });
    }
    return fingerprint;
  };
  return {
    run(plugin, spec, request, options) {
      if (plugin.prewarm === 0) return host.run(spec, request, options);
      const held = pool.take(plugin.name, keep(plugin, spec));
      const end =
        held === undefined
          ? host.run(spec, request, options)
          : held.feed(request, { ...options, timeoutMs: spec.timeoutMs });
      return end.finally(() => pool.ended());
    },
    prewarm({ catalog, environment }) {
      const before = warm;
      warm = new Map([...catalog.plugins].filter(([, plugin]) => plugin.prewarm > 0));
      for (const name of before.keys()) if (!warm.has(name)) pool.drop(name);
      // Its own time-outs count from the request, so which command's they are does not matter here.
      for (const plugin of warm.values()) keep(plugin, toSpec(plugin, '', environment));
    },
    stop: () => pool.stop(),
  };
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
