/** Settings of plugin processes: their isolation and their resource limits. */
import * as z from 'zod';
import { byteSize, count, duration, nonBlankText, strictSection } from '../base/fields.ts';
import { overlaps, resolvePath } from '../base/files.ts';
import { limits } from '../base/limits.ts';
import type { Config, IsolationConfig, ResourceLimits } from './config.ts';
import type { KeyPath } from './document.ts';

/** The keys of `plugins.<name>.isolation` and `tenants.isolation`. */
export const isolationSchema = strictSection({
  network: z.enum(['host', 'none']).optional(),
  read: z.array(nonBlankText()).max(limits.isolationPathsMax).default([]),
  write: z.array(nonBlankText()).max(limits.isolationPathsMax).default([]),
});

interface IsolationContext {
  readonly directory: string;
  readonly home: string;
  readonly report: (path: KeyPath, message: string, hint?: string) => void;
}

export function buildIsolation(
  { network, read, write }: z.output<typeof isolationSchema>,
  keyPath: KeyPath,
  { directory, home, report }: IsolationContext,
): IsolationConfig {
  const resolveAll = (key: 'read' | 'write', written: readonly string[]): string[] =>
    written.map((path, index) => {
      const resolved = resolvePath(path, directory, home);
      if (resolved === '/' || resolved.includes('\n')) {
        const message = `is ${JSON.stringify(path)}, which is not allowed`;
        report([...keyPath, key, index], message, 'List the directories that the plugin needs.');
      }
      return resolved;
    });
  return { network, read: resolveAll('read', read), write: resolveAll('write', write) };
}

type GuardedConfig = Pick<
  Config,
  'plugins' | 'tenants' | 'state' | 'directory' | 'pluginRoots' | 'packageRoots'
>;

/**
 * Reports writable directories that overlap with the state, the configuration, plugins or packages.
 * A process that can rename a parent directory can replace them.
 */
export function reportOverlaps(config: GuardedConfig, report: IsolationContext['report']): void {
  const { state, directory, pluginRoots, packageRoots } = config;
  const roots = [...pluginRoots, ...packageRoots].map(({ path }) => path);
  const guarded = [state.dir, directory, ...roots];
  for (const [path, { write }] of listIsolation(config)) {
    for (const [index, written] of write.entries()) {
      const found = guarded.find((directoryPath) => overlaps(directoryPath, written));
      if (found === undefined) continue;
      const hint = 'List a directory of its own, such as /srv/outbox.';
      report([...path, 'write', index], `is ${written}, which overlaps with ${found}`, hint);
    }
  }
}

function listIsolation({
  plugins,
  tenants,
}: GuardedConfig): (readonly [KeyPath, IsolationConfig])[] {
  const set = Object.entries(plugins).flatMap(([name, { isolation }]) =>
    isolation === undefined ? [] : [[['plugins', name, 'isolation'], isolation] as const],
  );
  return [[['tenants', 'isolation'], tenants.isolation], ...set];
}

/** The keys of `limits`. 0 means unlimited, even if there is a default. */
const limitKeys = {
  memory: byteSize({ min: limits.pluginMemoryBytesMin }),
  processes: count(0, limits.pluginProcessesMax),
  cpu: duration({ minMs: 0 }),
  file_size: byteSize(),
};

/** Without defaults, so that unset limits can be filled from elsewhere. */
export const limitsSchema = strictSection({
  memory: limitKeys.memory.optional(),
  processes: limitKeys.processes.optional(),
  cpu: limitKeys.cpu.optional(),
  file_size: limitKeys.file_size.optional(),
}).prefault({});

/** The default limits of tenants. */
export const tenantLimitsSchema = strictSection({
  memory: limitKeys.memory.default(limits.tenantPluginMemoryBytes),
  processes: limitKeys.processes.default(limits.tenantPluginProcesses),
  cpu: limitKeys.cpu.default(0),
  file_size: limitKeys.file_size.default(limits.tenantPluginFileBytes),
}).prefault({});

export function buildLimits(parsed: z.output<typeof limitsSchema>): ResourceLimits {
  return {
    memoryBytes: parsed.memory,
    processes: parsed.processes,
    cpuMs: parsed.cpu,
    fileBytes: parsed.file_size,
  };
}

/** Returns the stricter of each limit. 0 and unset limits don't limit. */
export function strictestLimits(one: ResourceLimits, other: ResourceLimits): ResourceLimits {
  return combine((key) => {
    const set = [one[key], other[key]].filter((value) => value !== undefined && value !== 0);
    return set.length === 0 ? undefined : Math.min(...set.map(Number));
  });
}

/** Returns the limits of a plugin, filled from the defaults; undefined means unlimited. */
export function resolveLimits(own: ResourceLimits, defaults: ResourceLimits): ResourceLimits {
  return combine((key) => (own[key] ?? defaults[key]) || undefined);
}

function combine(pick: (key: keyof ResourceLimits) => number | undefined): ResourceLimits {
  return {
    memoryBytes: pick('memoryBytes'),
    processes: pick('processes'),
    cpuMs: pick('cpuMs'),
    fileBytes: pick('fileBytes'),
  };
}
