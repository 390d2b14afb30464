import { type FileCategory, severities } from './finding.ts';
import { QUIET_FIX } from './findings/schedules.ts';
import { DuctileError } from '../base/errors.ts';
import type { Config } from '../config/config.ts';
import { keyText } from '../config/document.ts';
import { findConfigFindings, toFinding, type Finding } from '../config/findings.ts';
import type { ConfigReading } from '../config/load.ts';
import { nearest, suggest } from '../base/text.ts';
import { makeProblem, sortProblems, type Problem } from '../config/problem.ts';
import { isAlwaysQuiet } from '../schedule/preview.ts';
import { makeTimedSchedule } from '../schedule/plan.ts';
import { loadCatalog, findPluginCommand, type Catalog } from '../plugin/catalog.ts';
import { checkSchemas } from '../plugin/payload.ts';
import { findPluginDrift } from '../plugin/lock.ts';
import {
  checkWebhookConfig,
  checkRoutes,
  findRouteCycles,
  findEmptyPlaceholders,
} from '../pipeline/check-routes.service.ts';
import { checkPipelines } from '../pipeline/load.service.ts';

/**
 * Finds all problems of a configuration without starting it. Given the names of the stored
 * credentials, a webhook secret that is in neither place is an error instead of a warning.
 */
export function diagnose(
  reading: ConfigReading,
  nowMs: number,
  credentials?: ReadonlySet<string>,
): Finding[] {
  const findings = findConfigFindings(reading);
  const { config } = reading;
  if (config !== undefined) {
    try {
      findings.push(...diagnosePlugins(config, loadCatalog(config), nowMs, credentials));
    } catch (thrown) {
      findings.push(...readProblems(thrown).map((found) => toFinding('error', 'plugins', found)));
    }
  }
  return rank(findings);
}

/** Finds invalid schemas of plugins. It is separate, because it has to load a validator. */
export async function diagnoseSchemas({ config }: ConfigReading): Promise<Finding[]> {
  if (config === undefined) return [];
  try {
    const problems = await checkSchemas(loadCatalog(config).plugins.values());
    return problems.map((problem) => toFinding('warning', 'plugins', problem));
  } catch {
    // `diagnose` reports why the plugins can't be loaded.
    return [];
  }
}

function diagnosePlugins(
  config: Config,
  catalog: Catalog,
  nowMs: number,
  credentials: ReadonlySet<string> | undefined,
): Finding[] {
  const { routes, problems, warnings } = checkRoutes(config.routes, catalog);
  const as = (severity: Finding['severity'], category: FileCategory) => (problem: Problem) =>
    toFinding(severity, category, problem);
  const pipelines = checkPipelines(config.pipelines, catalog);
  const webhooks = checkWebhookConfig(config, catalog);
  const circles = findRouteCycles(config.routes, routes, catalog);
  const drifted = config.service.admission.failOnDrift ? 'error' : 'warning';
  return [
    ...findPluginDrift(config, catalog).map(as(drifted, 'integrity')),
    ...catalog.problems.map(as('error', 'plugins')),
    ...catalog.warnings.map(as('warning', 'plugins')),
    ...findAbsent(config, catalog).map(as('warning', 'plugins')),
    ...findDormant(config, catalog).map(as('info', 'plugins')),
    ...findUnenforced(config, catalog).map(as('warning', 'plugins')),
    ...problems.map(as('error', 'routes')),
    ...warnings.map(as('warning', 'routes')),
    ...findEmptyPlaceholders(config.routes, catalog).map(as('warning', 'routes')),
    ...circles.endless.map(as('error', 'routes')),
    ...circles.possible.map(as('warning', 'routes')),
    ...webhooks.problems.map(as('error', 'webhooks')),
    ...webhooks.warnings.map(as('warning', 'webhooks')),
    ...findMissingSecrets(config, credentials).map(
      as(credentials === undefined ? 'warning' : 'error', 'webhooks'),
    ),
    ...pipelines.problems.map(as('error', 'pipelines')),
    ...pipelines.warnings.map(as('warning', 'pipelines')),
    ...Object.keys(config.plugins).flatMap((name) => checkSchedules(name, config, catalog, nowMs)),
  ];
}

/** Finds limits that can't be enforced on this platform: they need /proc, which only Linux has. */
export function findUnenforced(
  config: Config,
  { plugins }: Catalog,
  platform: NodeJS.Platform = process.platform,
): Problem[] {
  if (platform === 'linux') return [];
  return [...plugins.values()].flatMap(({ name, limits: { memoryBytes, processes } }) =>
    Object.entries({ memory: memoryBytes, processes })
      .filter(([, limit]) => limit !== undefined)
      .map(([limit]) => {
        const { place } = config.plugins[name] ?? config.pluginDefaults;
        const key = keyText(['plugins', name, 'limits', limit]);
        const message = `is set, and Ductile can't enforce it on ${platform}`;
        return makeProblem(place, key, message, 'Run this plugin on Linux.');
      }),
  );
}

/** Finds endpoints whose secret isn't in the files. Without the ledger, it may be a stored credential. */
function findMissingSecrets(
  { webhooks }: Config,
  credentials: ReadonlySet<string> | undefined,
): Problem[] {
  return webhooks.endpoints.flatMap(({ secret, secretRef, place }, index) => {
    if (secret !== undefined || credentials?.has(secretRef) === true) return [];
    const key = keyText(['webhooks', 'endpoints', index, 'secret_ref']);
    const message =
      credentials === undefined
        ? `names ${secretRef}, which is not in tokens.yaml and must be a credential`
        : `names ${secretRef}, which is neither in tokens.yaml nor a credential, so every delivery is refused`;
    const hint = `Set it with \`ductile credential set ${secretRef}\`, or add it to tokens.yaml.`;
    return [makeProblem(place, key, message, hint)];
  });
}

function findDormant({ file }: Config, { dormant }: Catalog): Problem[] {
  return [...dormant].map(([name, keys]) => {
    const key = keyText(['plugins', name]);
    const wanted = keys.map((wantedKey) => `${key}.config.${wantedKey}`).join(' and ');
    return makeProblem(file, key, 'was found and waits to be set up', `To use it, set ${wanted}.`);
  });
}

/** Finds disabled plugins that don't exist: a typing error, or a plugin that was removed. */
function findAbsent({ plugins }: Config, { disabled, found }: Catalog): Problem[] {
  return [...disabled].flatMap((name) => {
    const settings = plugins[name];
    if (settings === undefined || found.has(settings.uses ?? name)) return [];
    if (settings.uses !== undefined && plugins[settings.uses] !== undefined) return [];
    const message = 'is disabled, and no plugin of that name was found';
    const close = nearest(name, [...found]);
    const hint =
      close === undefined ? 'Remove it, or check plugin_roots.' : `Did you mean ${close}?`;
    return [makeProblem(settings.place, keyText(['plugins', name]), message, hint)];
  });
}

function checkSchedules(name: string, config: Config, catalog: Catalog, nowMs: number): Finding[] {
  const plugin = catalog.plugins.get(name);
  const settings = config.plugins[name];
  if (settings === undefined || !settings.enabled) return [];
  return settings.schedules.flatMap((schedule, index): Finding[] => {
    const { id, command, timing } = schedule;
    const key = keyText(['plugins', name, 'schedules', index]);
    const found = (severity: Finding['severity'], message: string, hint: string): Finding[] => [
      toFinding(severity, 'schedules', makeProblem(settings.place, key, message, hint)),
    ];
    if (plugin !== undefined && findPluginCommand(plugin, command) === undefined) {
      const known = Object.keys(plugin.manifest.commands);
      const message = `(${id}) is for the command ${command}, which the plugin does not have`;
      return found('error', message, suggest(command, known, 'commands'));
    }
    if (timing.mode === 'at' && timing.atMs < nowMs) {
      return found('warning', `(${id}) is for a time in the past`, 'Remove it, or set a new time.');
    }
    if (isAlwaysQuiet(makeTimedSchedule(name, schedule, config.service), nowMs)) {
      const path = `plugins.${name}.schedules.${index}.quiet_action`;
      const hint =
        `${QUIET_FIX} Or start it when they end: ` +
        `\`ductile config set ${path}=defer --apply && ductile system reload\`.`;
      return found('warning', `(${id}) never fires: all of its times are in quiet hours`, hint);
    }
    return [];
  });
}

function readProblems(thrown: unknown): readonly Problem[] {
  if (!(thrown instanceof DuctileError) || thrown.code !== 'CONFIG_INVALID') throw thrown;
  return (thrown.details?.['problems'] ?? []) as readonly Problem[];
}

function rank(findings: readonly Finding[]): Finding[] {
  return sortProblems(findings).toSorted(
    (a, b) => severities.indexOf(a.severity) - severities.indexOf(b.severity),
  );
}
