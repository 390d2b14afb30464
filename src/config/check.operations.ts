import * as z from 'zod';
import type { Config } from './config.ts';
import { toFinding, type Finding } from './findings.ts';
import { readConfig, type LoadOptions, type ConfigReading } from './load.ts';
import { findPackages } from './packages.ts';
import { makeProblem } from './problem.ts';
import {
  checkApiAccess,
  explainCommand,
  explainScope,
  listScopedPlugins,
  type ScopeFault,
  type ScopedPlugins,
} from '../access/check-scopes.service.ts';
import { diagnose, diagnoseSchemas } from '../insight/diagnose.service.ts';
import { findingsShape, showFindings } from '../insight/findings.service.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation } from '../operation/define.ts';
import { loadCatalog } from '../plugin/catalog.ts';

export const checkConfig = defineOperation({
  name: 'config.check',
  summary: 'Check the configuration and report each problem with its location and fix.',
  effect: 'read',
  isForRoot: true,
  scope: 'config:ro',
  needs: 'files',
  input: z.strictObject({
    fail_on_warnings: z.boolean().optional().describe('exit with 2 if there are warnings'),
  }),
  output: findingsShape.extend({ fail_on_warnings: z.boolean() }),
  errors: ['CONFIG_NOT_FOUND', 'INPUT_INVALID'],
  http: { absent: '`GET /system/doctor` returns the same findings' },
  cli: {
    examples: ['ductile config check', 'ductile config check --fail-on-warnings --json'],
    exitCode: ({ errors, warnings, fail_on_warnings: isStrict }) => {
      if (errors !== 0) return 1;
      return isStrict === true && warnings !== 0 ? 2 : 0;
    },
  },
  async run(context, { fail_on_warnings = false }) {
    const findings = await listAllConfigFindings(readConfig(loadOptions(context)));
    return { ...showFindings(findings), fail_on_warnings };
  },
});

/** Returns the configuration of the command line, or of the service. */
export function loadOptions(context: Context): LoadOptions {
  const { configFiles } = context;
  return { given: configFiles === undefined ? context.engine.config.file : configFiles.given };
}

/** Lists all findings, including those of JSON schemas, whose validator takes a moment to load. */
export async function listAllConfigFindings(
  reading: ConfigReading,
  credentials?: ReadonlySet<string>,
): Promise<Finding[]> {
  return [
    ...listConfigFindings(reading, credentials),
    ...(await diagnoseSchemas(reading)),
    ...findBrokenPackages(reading),
  ];
}

/** Finds packages that can't be installed. */
function findBrokenPackages({ config }: ConfigReading): Finding[] {
  const roots = config?.packageRoots.map(({ path }) => path) ?? [];
  return findPackages(roots).problems.map((one) => toFinding('warning', 'packages', one));
}

/** Lists the findings of the files, the plugins and the scopes. */
export function listConfigFindings(
  reading: ConfigReading,
  credentials?: ReadonlySet<string>,
): Finding[] {
  const findings = diagnose(reading, Date.now(), credentials);
  return [...findings, ...findScopeFaults(reading)];
}

/** Other findings report a catalog that can't be loaded. */
function readScoped(config: Config): ScopedPlugins {
  try {
    return listScopedPlugins(config, loadCatalog(config));
  } catch {
    return listScopedPlugins(config);
  }
}

function findScopeFaults({ config }: ConfigReading): Finding[] {
  if (config === undefined) return [];
  const known = readScoped(config);
  const tokens = config.api.auth.tokens.flatMap(({ name, scopes, place }) => {
    const toFindings = (severity: Finding['severity']) => (fault: ScopeFault | undefined) => {
      if (fault === undefined) return [];
      const problem = makeProblem(place, `token ${name}`, fault.message, fault.hint);
      return [toFinding(severity, 'security', problem)];
    };
    return scopes.flatMap((scope) => [
      ...toFindings('error')(explainScope(scope, known)),
      ...toFindings('warning')(explainCommand(scope, known)),
    ]);
  });
  const { problems, warnings } = checkApiAccess(config, known);
  return [
    ...tokens,
    ...problems.map((problem) => toFinding('error', 'security', problem)),
    ...warnings.map((problem) => toFinding('warning', 'security', problem)),
  ];
}
