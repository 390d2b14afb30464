import { fromTimestamp, toTimestamp } from '../base/clock.ts';
import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Config } from '../config/config.ts';
import { toFinding, type Finding, type Severity } from '../config/findings.ts';
import { placeOf, withInstallations } from '../config/installed.ts';
import { makeProblem } from '../config/problem.ts';
import type { InstallationRow } from '../ledger/installations.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { openToLook } from '../ledger/reading.ts';
import type { WebhookRow } from '../ledger/webhooks.ts';
import { readProvides } from '../package/package.ts';
import type { ConfigPlace } from './context.ts';
import { findUnevenTypes } from './handled-elsewhere.ts';
import type { Targets } from '../engine/hook-check.ts';
import { checkPipelines } from '../engine/pipelines.ts';
import { findStranded, findWebhookFaults } from '../engine/stranded-hooks.ts';
import type { CheckContext } from '../insight/check.ts';
import { findLiveFindings } from '../insight/checks.ts';
import { findingId } from '../insight/finding.ts';
import { loadCatalog, type Catalog } from '../plugin/catalog.ts';

export interface LedgerFindings {
  readonly findings: readonly Finding[];
  readonly hasTenants: boolean;
  /** The names of the stored credentials; undefined if the ledger wasn't read. */
  readonly credentials?: ReadonlySet<string>;
}

/** What is found on a ledger that is opened for that, beside whoever works with it. */
export async function findInPlace(config: Config, place: ConfigPlace): Promise<LedgerFindings> {
  const { file, state } = config;
  const told = (severity: Severity, message: string, hint?: string): LedgerFindings => {
    const problem = makeProblem(file, 'state', message, hint);
    return { findings: [toFinding(severity, 'state', problem)], hasTenants: false };
  };
  try {
    const ledger = await openToLook(state);
    try {
      const damage = await ledger.quickCheck();
      if (damage.length === 0) {
        const { findings, ...more } = await findOnLedger(ledger, (rows) => targetsIn(config, rows));
        const catalog = catalogOf(config);
        const keyIds = await findKeyIds(ledger, config, place.readKeyIds);
        const live = await findLive({ ledger, config, catalog, keyIds, isRoot: true });
        return { findings: [...live, ...findings], ...more };
      }
      const hint = '`ductile system check` says all; `ductile system restore` puts a backup there.';
      return told('error', `names a ledger that is not sound: ${damage.join('; ')}`, hint);
    } finally {
      await ledger.close();
    }
  } catch (error) {
    if (!(error instanceof DuctileError)) throw error;
    const severity = error.code === 'LEDGER_OLDER' ? 'info' : 'error';
    return told(severity, `names a ledger that does not open: ${error.message}`, error.hint);
  }
}

export type LiveSubject = Omit<CheckContext, 'acknowledged' | 'now'>;

/**
 * Reads which credential keys are here. Undefined if a service runs: it may get its keys from another
 * environment than this process, and opens an incident for those that it misses.
 */
async function findKeyIds(
  ledger: Pick<Ledger, 'processes' | 'now'>,
  config: Config,
  readKeyIds: ConfigPlace['readKeyIds'],
): Promise<readonly string[] | undefined> {
  const [processes, now] = await Promise.all([ledger.processes(), ledger.now()]);
  const since = toTimestamp(fromTimestamp(now) - limits.incidentWatch.renewMs);
  if (processes.some(({ lastHeartbeatAt }) => lastHeartbeatAt > since)) return undefined;
  return readKeyIds?.(config);
}

/** Runs the checks of `src/insight`. */
export async function findLive(subject: LiveSubject): Promise<Finding[]> {
  const now = await subject.ledger.now();
  const { ledger, config, catalog, keyIds, isRoot } = subject;
  const found = await findLiveFindings({ ledger, config, catalog, keyIds, isRoot, now });
  return found.map((finding) => {
    const { key, severity, category, message, fix, evidence, commands, why, since } = finding;
    const problem = { place: findingId(finding), key, message, hint: fix };
    const id = findingId(finding);
    const count = finding.count ?? 1;
    const live = {
      id,
      evidence,
      commands,
      why: why ?? null,
      since: since ?? null,
      count,
      detail: finding.detail ?? null,
    };
    return { ...toFinding(severity, category, problem), live };
  });
}

/** What a ledger has on record that somebody should see to: nothing of it keeps others from working. */
export async function findOnLedger(
  ledger: Pick<
    Ledger,
    'credentials' | 'installations' | 'kind' | 'processes' | 'snapshots' | 'tenants' | 'webhooks'
  >,
  readTargets: (installations: readonly InstallationRow[]) => Targets | undefined,
): Promise<LedgerFindings> {
  const installations = await ledger.installations({});
  const webhooks = await ledger.webhooks();
  const targets = webhooks.length === 0 ? undefined : readTargets(installations);
  const faults = targets === undefined ? [] : [...findWebhookFaults(webhooks, targets)];
  const isFaulty = new Set(faults.map(([id]) => id));
  const sound = webhooks.filter(({ id }) => !isFaulty.has(id));
  const tenants = await ledger.tenants();
  const uneven = await findUnevenTypes(ledger);
  const findings = [
    ...uneven.map((type) => {
      const message = `is handled by the configuration of some live hosts and not of others`;
      const hint =
        'Give all hosts the same routes and pipelines: the host that accepts it decides.';
      const problem = makeProblem(`signal ${type}`, `signal ${type}`, message, hint);
      return toFinding('warning', 'routes', problem);
    }),
    ...faults.map(([id, { message, hint }]) =>
      toFinding('error', 'webhooks', makeProblem(`webhook ${id}`, `webhook ${id}`, message, hint)),
    ),
    ...(targets === undefined ? [] : findStrandedWebhooks(sound, targets)),
    ...installations.flatMap((row) => {
      if (row.lastError === null) return [];
      const message = `is installed and not in force: ${row.lastError}`;
      const hint = `Put right what it says, then \`ductile package enable ${row.slug}\`.`;
      const problem = makeProblem(placeOf(row), `package ${row.slug}`, message, hint);
      return [toFinding('error', 'packages', problem)];
    }),
    ...tenants.flatMap(({ slug, schemaError }) => {
      if (schemaError === null) return [];
      const message = `has a ledger that does not open: ${schemaError}`;
      const hint = 'It is tried again by itself; `ductile system migrate` tries it at once.';
      const problem = makeProblem(`tenant ${slug}`, `tenant ${slug}`, message, hint);
      return [toFinding('error', 'state', problem)];
    }),
  ];
  const credentials = new Set((await ledger.credentials()).map(({ name }) => name));
  return { findings, hasTenants: tenants.length > 0, credentials };
}

/** Finds webhooks whose plugin or pipeline is gone. */
function findStrandedWebhooks(webhooks: readonly WebhookRow[], targets: Targets): Finding[] {
  return [...findStranded(webhooks, targets)].map(([id, reason]) => {
    const message = `refuses every delivery: ${reason}`;
    const hint =
      'Put the target back into the configuration, then run `ductile system reload`. ' +
      `Or give it another target with \`ductile webhook edit ${id} --plugin <name>\`.`;
    const problem = makeProblem(`webhook ${id}`, `webhook ${id}`, message, hint);
    return toFinding('error', 'webhooks', problem);
  });
}

/** Compiles the pipelines of a configuration. */
export function makeTargets({ config, catalog }: Omit<Targets, 'pipelines'>): Targets {
  return { config, catalog, pipelines: checkPipelines(config.pipelines, catalog).pipelines };
}

/** What webhooks can start, with the parts of packages; undefined if it can't be read, which is another finding. */
function targetsIn(files: Config, installations: readonly InstallationRow[]): Targets | undefined {
  const installed = installations
    .filter(({ status, lastError }) => status !== 'disabled' && lastError === null)
    .map(({ id, slug, version, provisioned }) => {
      return { id, slug, version, provides: readProvides(provisioned) };
    });
  try {
    const config = withInstallations(files, installed);
    return makeTargets({ config, catalog: loadCatalog(config) });
  } catch {
    return undefined;
  }
}

function catalogOf(config: Config): Catalog | undefined {
  try {
    return loadCatalog(config);
  } catch {
    return undefined;
  }
}
