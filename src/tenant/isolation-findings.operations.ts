import { statSync } from 'node:fs';
import type { Severity } from '../insight/finding.ts';
import { catalogue } from '../base/error-catalogue.ts';
import { isObject } from '../base/json.ts';
import type { Config } from '../config/config.ts';
import { toFinding, type Finding } from '../config/findings.ts';
import type { ConfigReading } from '../config/load.ts';
import { makeProblem } from '../config/problem.ts';
import { describeIsolation, type IsolationState } from '../plugin/isolation.ts';
import type { Context } from '../operation/context.ts';

/** Reports the isolation tier if there are tenants or confined plugins. */
export function findTier(
  { config, document }: ConfigReading,
  context: Context,
  isThere: boolean,
): Finding[] {
  if (config === undefined) return [];
  const { configFiles } = context;
  const isWanted = Object.keys(config.pluginIsolation).length > 0;
  const isMeant = isObject(document.value) && 'tenants' in document.value;
  if (!isMeant && !isThere && !isWanted) return [];
  const state =
    configFiles === undefined ? context.engine.isolation() : configFiles.isolation?.(config);
  if (state === undefined) return [];
  const tenants = isMeant || isThere ? [findTenantTier(config, state, isThere)] : [];
  return [...tenants, ...findUnconfined(config, state), ...findUnreadable(config, state)];
}

const OTHERS_READ = 0o005;

/** Confined processes with their own user id only read world-readable files. */
function findUnreadable(config: Config, { hasOwnUser }: IsolationState): Finding[] {
  if (!hasOwnUser) return [];
  return config.pluginRoots.flatMap(({ path, place }) => {
    const mode = statSync(path, { throwIfNoEntry: false })?.mode ?? OTHERS_READ;
    if ((mode & OTHERS_READ) === OTHERS_READ) return [];
    const message = `names ${path}, which confined plugins can't read under their own user ids`;
    const hint = `Run: chmod -R o+rX ${path}`;
    return [toFinding('warning', 'security', makeProblem(place, 'plugin_roots', message, hint))];
  });
}

function findTenantTier(config: Config, state: IsolationState, isThere: boolean): Finding {
  const report = (severity: Severity, message: string, hint: string) =>
    toFinding(severity, 'security', makeProblem(config.file, 'tenants.trust', message, hint));
  const tier = describeIsolation(state);
  if (config.tenants.trust === 'shared') {
    const hint = 'Set it to isolated unless all tenants trust each other.';
    return report('warning', 'is shared: plugin processes of tenants are not isolated', hint);
  }
  if (state.tier === 'none') {
    const severity = isThere ? 'error' : 'warning';
    const message = `is isolated, but this host supports no isolation tier: ${tier}`;
    return report(severity, message, catalogue.TENANT_NOT_ISOLATED.hint);
  }
  const isWeak = state.tier === 'landlock' && !state.hasOwnUser;
  const hint = isWeak
    ? 'Allow user namespaces, or run the service as root, for a stronger tier.'
    : 'No action is needed.';
  return report(isWeak ? 'warning' : 'info', `is isolated, with this tier: ${tier}`, hint);
}

/** Finds confined plugins that can't run on this host. */
function findUnconfined(config: Config, state: IsolationState): Finding[] {
  if (state.tier !== 'none') return [];
  return Object.keys(config.pluginIsolation).map((name) => {
    const key = `plugins.${name}.isolation`;
    const message = `is set, but this host supports no isolation tier: ${describeIsolation(state)}`;
    const { hint } = catalogue.PLUGIN_NOT_ISOLATED;
    return toFinding('error', 'security', makeProblem(config.file, key, message, hint));
  });
}
