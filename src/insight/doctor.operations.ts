import * as z from 'zod';
import type { Config } from '../config/config.ts';
import { toFinding } from '../config/findings.ts';
import type { Finding } from '../config/findings.ts';
import { readConfig } from '../config/load.ts';
import type { LoadOptions, Reading } from '../config/load.ts';
import { findPackages } from '../config/packages.ts';
import { makeProblem } from '../config/problem.ts';
import { diagnose, diagnoseSchemas } from './diagnose.service.ts';
import { loadCatalog } from '../plugin/catalog.ts';
import { checkApiAccess } from '../access/check-access.service.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation } from '../operation/define.ts';
import { findingsShape, rankAll, showFindings } from './findings.service.ts';
import { findTier } from '../tenant/isolation-findings.operations.ts';
import {
  findInPlace,
  findLive,
  findOnLedger,
  subjectOf,
  type LedgerFindings,
} from './ledger-findings.operations.ts';
import { findOwnFaults, makeTargets } from './config-faults.service.ts';
import { makeSharedFindings } from './shared-findings.operations.ts';
import {
  explainCommand,
  explainScope,
  scopedBy,
  type ScopeFault,
  type Scoped,
} from '../access/check-scopes.service.ts';

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
  summary: 'List everything that is wrong or needs a decision, with the commands that resolve it.',
  effect: 'read',
  scope: 'system:ro',
  needs: 'files',
  input: z.strictObject({}),
  output: findingsShape,
  errors: ['CONFIG_NOT_FOUND', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/system/doctor' },
  cli: {
    examples: ['ductile system doctor', 'ductile doctor --json'],
    exitCode: ({ errors }) => (errors === 0 ? 0 : 1),
  },
  async run(context) {
    if (context.place !== undefined) return await examineService(context);
    const isTenant = context.principal.tenant !== undefined;
    return await shareFindings(context, isTenant ? examineTenant : examineService);
  },
});

type ShownFindings = z.output<typeof findingsShape>;

/** Dashboards ask again and again; those of one ledger share what is found. */
const shareFindings = makeSharedFindings<ShownFindings>();

async function examineService(context: Context): Promise<ShownFindings> {
  const reading = readConfig(loadOptions(context));
  const { findings, hasTenants, credentials } = await lookAtLedger(reading, context);
  const found = [
    ...findings,
    ...(await examineAll(reading, credentials)),
    ...findTier(reading, context, hasTenants),
  ];
  return showFindings(rankAll(dropRepeated(found, credentials !== undefined)));
}

/** Only what is in the tenant's own ledger: nothing about files, the machine or other tenants. */
async function examineTenant({ engine }: Context): Promise<ShownFindings> {
  const [live, faults] = await Promise.all([
    findLive(subjectOf(engine, false)),
    findOwnFaults(engine.ledger, () => makeTargets(engine)),
  ]);
  // A package's location is a file of the machine.
  const own = faults.map((one) => ({ ...one, place: one.live?.id ?? one.key }));
  return showFindings(rankAll([...live, ...own]));
}

/** The server's own, or from the command line the one that the files name, if they can be read. */
async function lookAtLedger({ config }: Reading, context: Context): Promise<LedgerFindings> {
  const { place } = context;
  if (place === undefined) {
    // Without a service there is no engine to read.
    const { engine } = context;
    const { findings, ...more } = await findOnLedger(engine.ledger, () => makeTargets(engine));
    const live = await findLive(subjectOf(engine, true));
    return { findings: [...live, ...findings], ...more };
  }
  return config === undefined ? notRead : findInPlace(config, place);
}

const notRead: LedgerFindings = { findings: [], hasTenants: false };

/**
 * Leaves out what two sources report: a plugin that doesn't load is a problem of its files, and
 * whether a webhook's credential is there is known from the ledger.
 */
function dropRepeated(findings: readonly Finding[], isRead: boolean): Finding[] {
  const inFiles = new Set(findings.flatMap(({ live, key }) => (live === undefined ? key : [])));
  return findings.filter(({ live, key, category, severity }) => {
    if (live?.kind === 'plugin_not_loaded') return !inFiles.has(`plugins.${key}`);
    const isReference = category === 'webhooks' && severity === 'warning' && SECRET_REF.test(key);
    return !(isReference && isRead && live === undefined);
  });
}

const SECRET_REF = /secret_ref$/;

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
