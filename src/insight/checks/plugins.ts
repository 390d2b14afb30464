import type { Catalog } from '../../plugin/catalog.ts';
import type { Check } from '../check.service.ts';

/** Finds plugins that didn't load; their jobs wait. */
export const findUnloadedPlugins: Check = ({ catalog, isRoot }) => {
  const unloaded = [...(catalog?.unloaded ?? [])];
  return Promise.resolve(
    unloaded.map(([plugin, reason]) => ({
      kind: 'plugin_not_loaded',
      key: plugin,
      severity: 'error',
      category: 'plugins',
      message: `The plugin ${plugin} did not load, and its jobs wait.`,
      // The reason can name files of the machine.
      evidence: isRoot ? reason : 'the operator of the service can see the reason',
      fix: isRoot
        ? 'Fix what the evidence names, then reload the configuration.'
        : 'Ask the operator of the service to fix it.',
      commands: isRoot ? [...listRepairs(plugin, catalog), `ductile plugin show ${plugin}`] : [],
      detail: { plugin },
    })),
  );
};

/** A reload before the files are repaired would change nothing, so the repair comes first. */
function listRepairs(plugin: string, catalog: Catalog | undefined): string[] {
  const hints = (catalog?.problems ?? []).filter((one) => one.plugin === plugin);
  const repairs = hints.flatMap(({ hint }) => /^Run: (.+)$/.exec(hint ?? '')?.[1] ?? []);
  return repairs.length === 0
    ? ['ductile system reload']
    : [[...new Set(repairs), 'ductile system reload'].join(' && ')];
}
