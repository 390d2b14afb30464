import * as z from 'zod';
import type { Config } from '../config/config.ts';
import { toFinding } from '../config/findings.ts';
import type { Finding } from '../config/findings.ts';
import { readConfig } from '../config/load.ts';
import type { LoadOptions, Reading } from '../config/load.ts';
import { findPackages } from '../config/packages.ts';
import { makeProblem } from '../config/problem.ts';
import { diagnose, diagnoseSchemas } from '../engine/doctor.ts';
import { loadCatalog } from '../plugin/catalog.ts';
import { checkApiAccess } from './access-check.ts';
import type { Context } from './context.ts';
import { defineOperation } from './define.ts';
import { findingsShape, showFindings } from './findings.ts';
import { findTier } from './isolation-findings.ts';
import { readKeyIds } from '../engine/vault.ts';
import {
  findInPlace,
  findLive,
  findOnLedger,
  makeTargets,
  type LedgerFindings,
  type LiveSubject,
} from './ledger-findings.ts';
import { makeSharedFindings } from './shared-findings.ts';
import {
  explainCommand,
  explainScope,
  scopedBy,
  type ScopeFault,
  type Scoped,
} from './scope-check.ts';

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
    const findings = await examineAll(readConfig(loadOptions(context)));
    return { ...showFindings(findings), fail_on_warnings };
  },
});

export const systemDoctor = defineOperation({
  name: 'system.doctor',
  summary: 'Look for everything that is wrong or unwise, and say what to do about it.',
  effect: 'read',
  isForRoot: true,
  scope: 'system:ro',
  needs: 'files',
  input: z.strictObject({}),
  output: findingsShape,
  errors: ['CONFIG_NOT_FOUND'],
  http: { method: 'GET', path: '/system/doctor' },
  cli: {
    examples: ['ductile system doctor', 'ductile doctor --json'],
    exitCode: ({ errors }) => (errors === 0 ? 0 : 1),
  },
  run: (context) =>
    context.place === undefined ? shareFindings(context, examineService) : examineService(context),
});

/** Dashboards ask again and again; those of one service share what is found. */
const shareFindings = makeSharedFindings<z.output<typeof findingsShape>>();

async function examineService(context: Context): Promise<z.output<typeof findingsShape>> {
  const reading = readConfig(loadOptions(context));
  const { findings, hasTenants, credentials } = await lookAtLedger(reading, context);
  return showFindings([
    ...(await examineAll(reading, credentials)),
    ...findTier(reading, context, hasTenants),
    ...findings,
  ]);
}

/** The server's own, or from the command line the one that the files name, if they can be read. */
async function lookAtLedger({ config }: Reading, context: Context): Promise<LedgerFindings> {
  const { place } = context;
  if (place === undefined) {
    // Without a service there is no engine to read.
    const { engine } = context;
    const { findings, ...more } = await findOnLedger(engine.ledger, () => makeTargets(engine));
    const live = await findLive({ ...seenBy(engine), isRoot: true });
    return { findings: [...live, ...findings], ...more };
  }
  return config === undefined ? { findings: [], hasTenants: false } : findInPlace(config, place);
}

/** What a service's checks look at. */
function seenBy(engine: Context['engine']): Omit<LiveSubject, 'isRoot'> {
  const { ledger, config, catalog } = engine;
  return { ledger, config, catalog, keyIds: readKeyIds(engine) };
}

/** Which configuration is meant: the one of the command line, or the one of the server. */
export function loadOptions(context: Context): LoadOptions {
  const { place } = context;
  return { given: place === undefined ? context.engine.config.file : place.given };
}

/** What is worth a validator that takes a moment to load, too. */
async function examineAll(reading: Reading, credentials?: ReadonlySet<string>): Promise<Finding[]> {
  return [
    ...examine(reading, credentials),
    ...(await diagnoseSchemas(reading)),
    ...findBroken(reading),
  ];
}

/** Packages that cannot be installed; nothing else is harmed by them. */
function findBroken({ config }: Reading): Finding[] {
  const roots = config?.packageRoots.map(({ path }) => path) ?? [];
  return findPackages(roots).problems.map((one) => toFinding('warning', 'packages', one));
}

/** All that can be found, scopes included, whose meaning only the operations know. */
export function examine(reading: Reading, credentials?: ReadonlySet<string>): Finding[] {
  const findings = diagnose(reading, Date.now(), credentials);
  return [...findings, ...findScopes(reading)];
}

/** What cannot be loaded is told elsewhere. */
function scopedHere(config: Config): Scoped {
  try {
    return scopedBy(config, loadCatalog(config));
  } catch {
    return scopedBy(config);
  }
}

function findScopes({ config }: Reading): Finding[] {
  if (config === undefined) return [];
  const known = scopedHere(config);
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
