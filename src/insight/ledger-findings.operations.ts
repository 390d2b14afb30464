import { fromTimestamp, toTimestamp } from '../base/clock.ts';
import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Config } from '../config/config.ts';
import { toFinding, type Finding } from '../config/findings.ts';
import { makeProblem } from '../config/problem.ts';
import type { InstallationRow } from '../package/types.ts';
import type { Ledger, LedgerSubset } from '../ledger/ledger.ts';
import { openReadonlyLedger } from '../ledger/open-readonly.ts';
import {
  findMissingTargets,
  findWebhookFaults,
  type AvailableTargets,
} from '../webhook/check-entry.service.ts';
import type { WebhookRow } from '../webhook/types.ts';
import { checkPipelines } from '../pipeline/load.service.ts';
import { describeInstallation, withInstallations } from '../config/installed.ts';
import { readKeyIds } from '../access/vault.service.ts';
import type { ConfigFiles, Context } from '../operation/context.ts';
import { findUnevenTypes } from '../signal/emit.service.ts';
import type { CheckContext } from './define-finding.service.ts';
import { toInstalledPackages } from './findings/configuration.ts';
import { findLiveFindings } from './checks.service.ts';
import { findingId, type LiveFinding, type Severity } from './finding.ts';
import { packageInactive, tenantClosed } from './findings/installations.ts';
import { webhookFault, webhookStranded } from './findings/webhooks.ts';
import { loadCatalog, type Catalog } from '../plugin/catalog.ts';
import { countFindings, findingShape } from './findings.service.ts';
import { SharedFigure } from '../job/figures.operations.ts';
import { unmaskedLedger } from '../operation/visibility.ts';
import * as z from 'zod';

/** The findings of a ledger, and what the other parts of `doctor` need from it. */
export interface LedgerFindings {
  readonly findings: readonly Finding[];
  readonly hasTenants: boolean;
  /** The names of the stored credentials. Undefined if the ledger wasn't read. */
  readonly credentials?: ReadonlySet<string>;
}

/** Opens the configured ledger read-only and examines it. A service can use it at the same time. */
export async function findInConfiguredLedger(
  config: Config,
  files: ConfigFiles,
): Promise<LedgerFindings> {
  const { file, state } = config;
  const report = (severity: Severity, message: string, hint?: string): LedgerFindings => {
    const problem = makeProblem(file, 'state', message, hint);
    return { findings: [toFinding(severity, 'state', problem)], hasTenants: false };
  };
  try {
    const ledger = await openReadonlyLedger(state);
    try {
      const damage = await ledger.quickCheck();
      if (damage.length === 0) {
        const { findings, ...more } = await findLedgerFaults(ledger, (rows) =>
          readTargetsOf(config, rows),
        );
        const catalog = findCatalog(config);
        const keyIds = await findKeyIds(ledger, config, files.readKeyIds);
        const live = await listLiveFindings({ ledger, config, catalog, keyIds, isRoot: true });
        return { findings: [...live, ...findings], ...more };
      }
      const hint =
        'Run `ductile system check` for all details. ' +
        'Run `ductile system restore` to restore a backup.';
      return report('error', `names a damaged database: ${damage.join('; ')}`, hint);
    } finally {
      await ledger.close();
    }
  } catch (error) {
    if (!(error instanceof DuctileError)) throw error;
    const severity = error.code === 'LEDGER_OLDER' ? 'info' : 'error';
    return report(severity, `names a database that can't be opened: ${error.message}`, error.hint);
  }
}

/** Everything that the checks need, without the time. */
type LiveSubject = Omit<CheckContext, 'acknowledged' | 'now'>;

/**
 * Reads which credential keys are here. Undefined if a service runs: it may get its keys from another
 * environment than this process, and opens an incident for those that it misses.
 */
async function findKeyIds(
  ledger: LedgerSubset<'processes.list' | 'now'>,
  config: Config,
  readHere: ConfigFiles['readKeyIds'],
): Promise<readonly string[] | undefined> {
  const [processes, now] = await Promise.all([ledger.processes.list(), ledger.now()]);
  const since = toTimestamp(fromTimestamp(now) - limits.incidentWatch.renewMs);
  if (processes.some(({ lastHeartbeatAt }) => lastHeartbeatAt > since)) return undefined;
  return readHere?.(config);
}

/** Returns what the checks of a running service need. */
export function toLiveSubject(engine: Context['engine'], isRoot: boolean): LiveSubject {
  const { ledger, config, catalog } = engine;
  return { ledger, config, catalog, keyIds: readKeyIds(engine), isRoot };
}

/** Runs the checks of `src/insight/findings`. */
async function readLiveFindings(subject: LiveSubject): Promise<LiveFinding[]> {
  return await findLiveFindings({ ...subject, now: await subject.ledger.now() });
}

/** Runs the checks for the ledger of an engine. */
export async function readEngineFindings(engine: Context['engine']): Promise<LiveFinding[]> {
  return await readLiveFindings(toLiveSubject(engine, engine.tenant === undefined));
}

/** Runs the checks, and converts the results to findings of `doctor`. */
export async function listLiveFindings(subject: LiveSubject): Promise<Finding[]> {
  return (await readLiveFindings(subject)).map((finding) => toLedgerFinding(finding));
}

/** Converts a finding. The objects of some findings aren't named by their id, but in words. */
function toLedgerFinding(finding: LiveFinding, place?: string, key?: string): Finding {
  const { severity, category, message, fix: hint } = finding;
  const named = { place: place ?? findingId(finding), key: key ?? place ?? finding.key };
  return { ...named, message, hint, severity, category, live: finding };
}

type ExaminedLedger = LedgerSubset<
  | 'credentials.list'
  | 'installations.list'
  | 'kind'
  | 'processes.list'
  | 'snapshots.list'
  | 'tenants.list'
  | 'webhooks.list'
>;

/** Finds webhooks, packages, tenants and signal types that don't work. */
export async function findLedgerFaults(
  ledger: ExaminedLedger,
  readTargets: (installations: readonly InstallationRow[]) => AvailableTargets | undefined,
): Promise<LedgerFindings> {
  const tenants = await ledger.tenants.list();
  const uneven = await findUnevenTypes(ledger);
  const findings = [
    ...uneven.map((type) => {
      const message = `is handled by the configuration of some live hosts and not of others`;
      const hint =
        'Give all hosts the same routes and pipelines. ' +
        'The host that accepts a signal decides how it is handled.';
      const problem = makeProblem(`signal ${type}`, `signal ${type}`, message, hint);
      return toFinding('warning', 'routes', problem);
    }),
    ...(await findOwnFaults(ledger, readTargets)),
    ...tenants
      .filter(({ schemaError }) => schemaError !== null)
      .map((row) => toLedgerFinding(tenantClosed.describe(row), `tenant ${row.slug}`)),
  ];
  const credentials = new Set((await ledger.credentials.list()).map(({ name }) => name));
  return { findings, hasTenants: tenants.length > 0, credentials };
}

/** Finds webhooks and packages that don't work. A tenant has them, too. */
export async function findOwnFaults(
  ledger: LedgerSubset<'installations.list' | 'webhooks.list'>,
  readTargets: (installations: readonly InstallationRow[]) => AvailableTargets | undefined,
): Promise<Finding[]> {
  const [installations, webhooks] = await Promise.all([
    ledger.installations.list({}),
    ledger.webhooks.list(),
  ]);
  const targets = webhooks.length === 0 ? undefined : readTargets(installations);
  return [
    ...(targets === undefined ? [] : findWebhooks(webhooks, targets)),
    ...installations
      .filter(({ lastError }) => lastError !== null)
      .map((row) =>
        toLedgerFinding(
          packageInactive.describe(row),
          describeInstallation(row),
          `package ${row.slug}`,
        ),
      ),
  ];
}

/** Finds webhooks with faults, and of the others those whose target is gone. */
function findWebhooks(webhooks: readonly WebhookRow[], targets: AvailableTargets): Finding[] {
  const faults = findWebhookFaults(webhooks, targets);
  const sound = webhooks.filter(({ id }) => !faults.has(id));
  return [
    ...[...faults].map(([id, fault]) => webhookFault.describe({ id, fault })),
    ...[...findMissingTargets(sound, targets)].map(([id, reason]) =>
      webhookStranded.describe({ id, reason }),
    ),
  ].map((finding) => toLedgerFinding(finding, `webhook ${finding.key}`));
}

/** Compiles the pipelines of a configuration. */
export function makeTargets({
  config,
  catalog,
}: Omit<AvailableTargets, 'pipelines'>): AvailableTargets {
  return { config, catalog, pipelines: checkPipelines(config.pipelines, catalog).pipelines };
}

/** Returns what webhooks can start, with the parts of packages. Undefined if the plugins can't be read. */
function readTargetsOf(
  files: Config,
  installations: readonly InstallationRow[],
): AvailableTargets | undefined {
  const installed = toInstalledPackages(installations);
  try {
    const config = withInstallations(files, installed);
    return makeTargets({ config, catalog: loadCatalog(config) });
  } catch {
    return undefined;
  }
}

function findCatalog(config: Config): Catalog | undefined {
  try {
    return loadCatalog(config);
  } catch {
    return undefined;
  }
}

export const summaryShape = z
  .object({
    errors: z.int(),
    warnings: z.int(),
    infos: z.int(),
    first: z.array(
      findingShape
        .pick({ id: true, kind: true, severity: true, message: true, since: true, why: true })
        .extend({ command: z.string().nullable() }),
    ),
  })
  .describe('number of findings of `doctor` on the ledger, and the most urgent ones');

const known = new WeakMap<Ledger, SharedFigure<readonly LiveFinding[]>>();

/** Counts the findings, and shows the first ones. Concurrent callers share one read. */
export async function readSummary({
  engine,
  principal,
}: Pick<Context, 'engine' | 'principal'>): Promise<z.output<typeof summaryShape>> {
  // Evidence contains nothing that only some callers may see, so all callers share it.
  const ledger = unmaskedLedger(engine.ledger);
  let figure = known.get(ledger);
  if (figure === undefined) {
    const isRoot = principal.tenant === undefined;
    figure = new SharedFigure<readonly LiveFinding[]>(
      () => readLiveFindings({ ...toLiveSubject(engine, isRoot), ledger }),
      () => 0,
    );
    known.set(ledger, figure);
  }
  const { value: findings } = await figure.get();
  return {
    ...countFindings(findings),
    first: findings.slice(0, limits.findingsShownMax).map((finding) => ({
      id: findingId(finding),
      kind: finding.kind,
      severity: finding.severity,
      message: finding.message,
      since: finding.since ?? null,
      why: finding.why ?? null,
      command: finding.commands[0] ?? null,
    })),
  };
}
