import * as z from 'zod';
import type { Config } from './config.ts';
import { toFinding, type Finding } from './findings.ts';
import { readConfig, type LoadOptions, type Reading } from './load.ts';
import { findPackages } from './packages.ts';
import { makeProblem } from './problem.ts';
import { checkApiAccess } from '../access/check-access.service.ts';
import {
  explainCommand,
  explainScope,
  scopedBy,
  type ScopeFault,
  type Scoped,
} from '../access/check-scopes.service.ts';
import { diagnose, diagnoseSchemas } from '../insight/diagnose.service.ts';
import { findingsShape, showFindings } from '../insight/findings.service.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation } from '../operation/define.ts';
import { loadCatalog } from '../plugin/catalog.ts';

export const checkConfig = defineOperation({
  name: 'config.check',
  summary: 'Check the configuration: every finding with its place and what to do.',
  effect: 'read',
  isForRoot: true,
  scope: 'config:ro',
  needs: 'files',
  input: z.strictObject({
    fail_on_warnings: z.boolean().optional().describe('exit with 2 when there are warnings'),
  }),
  output: findingsShape.extend({ fail_on_warnings: z.boolean() }),
  errors: ['CONFIG_NOT_FOUND', 'INPUT_INVALID'],
  http: { absent: '`GET /system/doctor` says the same' },
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

/** Which configuration is meant: the one of the command line, or the one of the server. */
export function loadOptions(context: Context): LoadOptions {
  const { place } = context;
  return { given: place === undefined ? context.engine.config.file : place.given };
}

/** What is worth a validator that takes a moment to load, too. */
export async function listAllConfigFindings(
  reading: Reading,
  credentials?: ReadonlySet<string>,
): Promise<Finding[]> {
  return [
    ...listConfigFindings(reading, credentials),
    ...(await diagnoseSchemas(reading)),
    ...findBrokenPackages(reading),
  ];
}

/** Packages that cannot be installed; nothing else is harmed by them. */
function findBrokenPackages({ config }: Reading): Finding[] {
  const roots = config?.packageRoots.map(({ path }) => path) ?? [];
  return findPackages(roots).problems.map((one) => toFinding('warning', 'packages', one));
}

/** All that can be found, scopes included, whose meaning only the operations know. */
export function listConfigFindings(reading: Reading, credentials?: ReadonlySet<string>): Finding[] {
  const findings = diagnose(reading, Date.now(), credentials);
  return [...findings, ...findScopeFaults(reading)];
}

/** What cannot be loaded is told elsewhere. */
function readScoped(config: Config): Scoped {
  try {
    return scopedBy(config, loadCatalog(config));
  } catch {
    return scopedBy(config);
  }
}

function findScopeFaults({ config }: Reading): Finding[] {
  if (config === undefined) return [];
  const known = readScoped(config);
  const tokens = config.api.auth.tokens.flatMap(({ name, scopes, place }) => {
    const tell = (severity: Finding['severity']) => (fault: ScopeFault | undefined) => {
      if (fault === undefined) return [];
      const problem = makeProblem(place, `token ${name}`, fault.message, fault.hint);
      return [toFinding(severity, 'security', problem)];
    };
    return scopes.flatMap((scope) => [
      ...tell('error')(explainScope(scope, known)),
      ...tell('warning')(explainCommand(scope, known)),
    ]);
  });
  const { problems, warnings } = checkApiAccess(config, known);
  return [
    ...tokens,
    ...problems.map((problem) => toFinding('error', 'security', problem)),
    ...warnings.map((problem) => toFinding('warning', 'security', problem)),
  ];
}
