import { maskText } from '../../base/secrets.ts';
import type { Check } from '../check.ts';

/** Finds plugins whose init failed; everything else of them waits until it succeeds. */
export const findFailedSetups: Check = async ({ ledger, catalog }) => {
  const rows = await ledger.pluginHealth();
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
