import * as z from 'zod';
import { byteSize, count, duration, strictSection } from '../base/fields.ts';
import { limits } from '../base/limits.ts';
import type { ResourceLimits } from './config.ts';

/** The keys of `limits`. 0 means unlimited, even if there is a default. */
const keys = {
  memory: byteSize({ min: limits.pluginMemoryBytesMin }),
  processes: count(0, limits.pluginProcessesMax),
  cpu: duration({ minMs: 0 }),
  file_size: byteSize(),
};

/** Without defaults, so that unset limits can be filled from elsewhere. */
export const limitsSchema = strictSection({
  memory: keys.memory.optional(),
  processes: keys.processes.optional(),
  cpu: keys.cpu.optional(),
  file_size: keys.file_size.optional(),
}).prefault({});

/** The default limits of tenants. */
export const tenantLimitsSchema = strictSection({
  memory: keys.memory.default(limits.tenantPluginMemoryBytes),
  processes: keys.processes.default(limits.tenantPluginProcesses),
  cpu: keys.cpu.default(0),
  file_size: keys.file_size.default(limits.tenantPluginFileBytes),
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
export function resolveLimits(own: ResourceLimits, usual: ResourceLimits): ResourceLimits {
  return combine((key) => (own[key] ?? usual[key]) || undefined);
}

function combine(pick: (key: keyof ResourceLimits) => number | undefined): ResourceLimits {
  return {
    memoryBytes: pick('memoryBytes'),
    processes: pick('processes'),
    cpuMs: pick('cpuMs'),
    fileBytes: pick('fileBytes'),
  };
}
