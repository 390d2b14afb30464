import { maskText } from '../../base/secrets.ts';
import { limits } from '../../base/limits.ts';
import type { Check } from '../check.service.ts';

/** Finds plugins whose init failed; everything else of them waits until it succeeds. */
export const findFailedSetups: Check = async ({ ledger, catalog }) => {
  const rows = await ledger.plugins.listHealth();
  const failed = rows.filter(
    ({ kind, status, plugin, fingerprint }) =>
      kind === 'init' &&
      status === 'unhealthy' &&
      // An init of another version or configuration says nothing about this one.
      catalog?.plugins.get(plugin)?.identity === fingerprint,
  );
  return failed.map(({ plugin, reason, jobId, updatedAt }) => ({
    kind: 'plugin_not_set_up',
    key: plugin,
    severity: 'error',
    category: 'plugins',
    message: `The init of the plugin ${plugin} failed, so its other jobs wait.`,
    evidence: `job ${jobId} failed: ${reason === null ? 'no reason was recorded' : maskText(reason)}`,
    fix: 'Fix the cause, then run the init again. The jobs that wait start when it has succeeded.',
    commands: [`ductile plugin init ${plugin}`],
    why: jobId,
    since: updatedAt,
    detail: { plugin, job_id: jobId },
  }));
};

/**
 * Finds plugins that the running service could not load, and that could be loaded by now. Whoever looks
 * from the command line reads the files again and would find nothing wrong with them.
 */
export const findUnloadedInService: Check = async ({ ledger, catalog, isRoot }) => {
  if (!isRoot || catalog === undefined) return [];
  const open = await ledger.incidents.list({ isOpen: true, limit: limits.pageRowsMax });
  const unloaded = open.filter(
    ({ kind, key }) => kind === 'plugin_not_loaded' && catalog.plugins.has(key),
  );
  if (unloaded.length === 0) return [];
  const [newest] = await ledger.snapshots.list(1);
  return unloaded
    .filter(({ lastSeenAt }) => newest === undefined || newest.createdAt <= lastSeenAt)
    .map(({ id, key, openedAt }) => ({
      kind: 'plugin_not_reloaded',
      key,
      severity: 'error',
      category: 'plugins',
      message: `The service has not loaded the plugin ${key}, and its jobs wait; it could be loaded now.`,
      evidence: `the incident ${id} is open since ${openedAt}, and the files of the plugin are sound`,
      fix: 'Reload the configuration.',
      commands: ['ductile system reload'],
      why: id,
      since: openedAt,
      detail: { plugin: key, incident_id: id },
    }));
};
