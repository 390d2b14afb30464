import type { Check } from '../check.ts';

/** Finds plugins that didn't load; their jobs wait. */
export const findUnloadedPlugins: Check = ({ catalog }) => {
  const unloaded = [...(catalog?.unloaded ?? [])];
  return Promise.resolve(
    unloaded.map(([plugin, reason]) => ({
      kind: 'plugin_not_loaded',
      key: plugin,
      severity: 'error',
      category: 'plugins',
      message: `The plugin ${plugin} did not load, and its jobs wait.`,
      evidence: reason,
      fix: 'Fix what the evidence names, then reload the configuration.',
      commands: [`ductile plugin show ${plugin}`, 'ductile system reload'],
      detail: { plugin },
    })),
  );
};
