import * as z from 'zod';
import { strictSection, nonBlankText } from '../base/fields.ts';
import { limits } from '../base/limits.ts';
import type { Config, IsolationConfig } from './config.ts';
import type { KeyPath } from './document.ts';
import { overlaps, resolvePath } from '../base/files.ts';

/** The keys of `plugins.<name>.isolation` and `tenants.isolation`. */
export const isolationSchema = strictSection({
  network: z.enum(['host', 'none']).optional(),
  read: z.array(nonBlankText()).max(limits.isolationPathsMax).default([]),
  write: z.array(nonBlankText()).max(limits.isolationPathsMax).default([]),
});

export interface IsolationContext {
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
        const message = `is ${JSON.stringify(path)}, which cannot be listed`;
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
