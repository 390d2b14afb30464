import { statSync } from 'node:fs';
import type { Catalog, Plugin } from '../plugin/catalog.ts';
import type { PrewarmPool } from '../plugin/prewarm.ts';
import type { Host } from '../plugin/process.ts';
import { toSpec, type ExecutorOptions } from './executor.ts';

export interface Runner {
  readonly run: ExecutorOptions['run'];
  /** Starts the processes that wait for requests; the helper must run. */
  prewarm(): void;
  stop(): void;
}

/** Runs a plugin in a process that was started ahead where there is one, else in a new one. */
export function makeRunner(
  host: Host,
  pool: PrewarmPool,
  catalog: Catalog,
  environment: Readonly<Record<string, string>>,
): Runner {
  const keep = (plugin: Plugin): string => {
    const fingerprint = stamp(plugin);
    // Its own time-outs count from the request, so which command's they are does not matter here.
    const spec = toSpec(plugin, '', environment);
    pool.keep(plugin.name, { fingerprint, spec, count: plugin.prewarm });
    return fingerprint;
  };
  return {
    run(plugin, spec, request, options) {
      const held = plugin.prewarm > 0 ? pool.take(plugin.name, keep(plugin)) : undefined;
      if (held === undefined) return host.run(spec, request, options);
      return held.feed(request, { ...options, timeoutMs: spec.timeoutMs });
    },
    prewarm() {
      for (const plugin of catalog.plugins.values()) if (plugin.prewarm > 0) keep(plugin);
    },
    stop: () => pool.stop(),
  };
}

/** Changes with the plugin's settings and also when its program on disk is replaced or edited. */
function stamp(plugin: Plugin): string {
  const file = statSync(plugin.entrypoint, { throwIfNoEntry: false });
  return `${plugin.fingerprint} ${file?.ino ?? 0} ${file?.size ?? 0} ${file?.mtimeMs ?? 0}`;
}
