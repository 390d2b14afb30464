import type { Runner } from '../job/run-plugin.service.ts';
import type { PluginInits } from '../job/plugin-init.service.ts';
import type { Reaper } from '../job/reaper.service.ts';
import type { ActiveInstallations } from '../package/installations.service.ts';
import type { TenantPool } from '../tenant/tenants.ts';
import { refuseUnisolated, type IsolationOf } from '../tenant/require-isolation.service.ts';
import { requireSecrets } from '../webhook/store.service.ts';
import type { WebhookIntake } from '../webhook/webhooks.ts';
import type { LedgerContext } from './context.ts';
import {
  logSchemaProblems,
  makeGeneration,
  logFindings,
  type Blueprint,
  type Generation,
} from './generation.ts';
import { toTimestamp, type Timestamp } from '../base/clock.ts';
import { DuctileError, messageOf, toDuctileError } from '../base/errors.ts';
import { parseStoredJson } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { probe } from '../base/probe.ts';
import type { Config } from '../config/config.ts';
import { redact } from '../config/effective.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { describeChanges, findFixed, findRemovedPlugins } from './config-changes.ts';
import type { GenerationStatus, ReloadReport } from './engine.ts';
import { describeLostTargets } from '../webhook/check-entry.service.ts';
import { claimConfiguredNames } from '../access/tokens.service.ts';

/** Reads the files from which a generation is created. */
export interface BlueprintSource {
  /** Reads all files again, under the admission rules of the active configuration; throws if they are invalid. */
  readonly load: (active: Config) => Blueprint;
  /** Creates a blueprint from a configuration that was already read, such as one with installations. */
  readonly compile: (config: Config) => Blueprint;
}

/** The services that take part in a reload. */
export interface ReloadServices {
  readonly source: BlueprintSource;
  readonly installations: ActiveInstallations;
  readonly pluginInits: PluginInits;
  readonly webhookIntake: WebhookIntake;
  readonly runner: Runner;
  readonly reaper: Reaper;
  readonly tenants: Pick<TenantPool, 'renew'> | undefined;
  readonly isolation: IsolationOf | undefined;
}

export interface Reloader {
  /** Records the generation that the process starts with. */
  begin(): Promise<void>;
  /**
   * Reads the files again, one reload at a time. When it resolves, all of it is active, or nothing
   * has changed.
   */
  reload(actor: string): Promise<ReloadResult>;
  /** Makes the installations active, with the files as they were last read. */
  renew(): Promise<ReloadResult>;
  /** Describes what a reload would change, or why it would be refused. */
  plan(): Promise<string[]>;
  status(): GenerationStatus;
  /** Calls back when a reload starts and when it ends. */
  watch(listener: (isReloading: boolean) => void): void;
}

export interface ReloadResult {
  readonly generation: number;
  readonly snapshotId: string;
  readonly reloadedAt: Timestamp;
  /** The differences, in sentences. */
  readonly changes: readonly string[];
}

/** Replaces the active generation while work continues. */
export function makeReloader(context: LedgerContext, services: ReloadServices): Reloader {
  const { ledger } = context;
  const { source, installations, reaper } = services;
  const log = context.log.child('reload');
  let lastReload: ReloadReport | undefined;
  let lastInQueue: Promise<unknown> = Promise.resolve();
  let onReload: (isReloading: boolean) => void = () => undefined;

  const attempt = async (actor: string, read: () => Blueprint): Promise<ReloadResult> => {
    const at = toTimestamp(Date.now());
    const before = context.generation;
    onReload(true);
    try {
      const blueprint = await installations.extend(read());
      const next = makeGeneration(blueprint, before.number + 1, context.log);
      logFindings(next, context.log);
      const stranded = await describeLostTargets(before, next, ledger);
      await prepare(next, context, services);
      await record(next, 'reload', context, before.config);
      probe('reload.before-swap');
      adopt(next, context, services);
      await tryNow(afterReload(context, services), log);
      const changes = [...describeChanges(before, next), ...stranded];
      if (stranded.length > 0) log.warn('webhooks have nothing to start', { webhooks: stranded });
      lastReload = { at, by: actor, refused: undefined };
      log.info('the configuration was reloaded', { generation: next.number, by: actor, changes });
      return { generation: next.number, snapshotId: next.snapshotId, reloadedAt: at, changes };
    } catch (thrown) {
      lastReload = { at, by: actor, refused: messageOf(thrown) };
      log.error('the reload was refused', { by: actor, reason: messageOf(thrown) });
      throw thrown;
    } finally {
      onReload(false);
    }
  };

  const enqueue = (work: () => Promise<ReloadResult>): Promise<ReloadResult> => {
    const result = lastInQueue.then(work);
    lastInQueue = result.catch(() => undefined);
    return result;
  };

  return {
    begin: () => record(context.generation, 'start', context),
    reload(actor) {
      return enqueue(async () => {
        const before = context.generation;
        const reloaded = await attempt(actor, () => readFiles(context, source));
        await tryNow(reaper.endJobsOf(findRemovedPlugins(before, context.generation)), log);
        return reloaded;
      });
    },
    renew: () => enqueue(() => attempt('installations', () => filesOf(context.generation, source))),
    plan: () => planReload(context, services),
    watch(listener) {
      onReload = listener;
    },
    status() {
      const { number, snapshotId, loadedAtMs } = context.generation;
      return { number, snapshotId, loadedAt: toTimestamp(loadedAtMs), lastReload };
    },
  };
}

async function planReload(
  context: LedgerContext,
  { installations, source }: ReloadServices,
): Promise<string[]> {
  try {
    const next = await installations.extend(readFiles(context, source));
    const stranded = await describeLostTargets(context.generation, next, context.ledger);
    const changes = [...describeChanges(context.generation, next), ...stranded];
    return changes.length === 0 ? ['Nothing would change.'] : changes;
  } catch (thrown) {
    return [`${WOULD_BE_REFUSED}${messageOf(thrown)}`];
  }
}

/** Checks a generation before it becomes active; throws if it can't be used. */
async function prepare(
  { config }: Generation,
  { ledger }: LedgerContext,
  { webhookIntake, tenants, isolation, pluginInits }: ReloadServices,
): Promise<void> {
  if (config.webhooks.enabled) await requireSecrets(config.webhooks, webhookIntake);
  const others = tenants === undefined ? [] : await ledger.tenants.list();
  if (others.length > 0) refuseUnisolated(config, isolation);
  // The first claim needs to know which plugins are initialized under this generation.
  await pluginInits.load();
}

/** Makes a generation active. It can't fail: half a reload would be neither the old nor the new one. */
function adopt(
  generation: Generation,
  context: LedgerContext,
  { tenants, runner }: ReloadServices,
): void {
  context.generation = generation;
  tenants?.renew();
  void logSchemaProblems(generation, context.log);
  runner.prewarm(generation);
  context.commits.publish({ adopted: true });
}

/** Initializes plugins and records installations of the active generation. A failure is retried later. */
async function afterReload(
  { generation }: LedgerContext,
  { pluginInits, installations }: ReloadServices,
): Promise<void> {
  await pluginInits.request();
  await installations.recordErrors(generation.installed);
}

/** Logs a failure instead of throwing it, because the new generation is active already. */
async function tryNow(work: Promise<void>, log: Log): Promise<void> {
  await work.catch((error: unknown) => {
    log.warn('the new configuration is not applied completely; retrying later', {
      error: messageOf(error),
    });
  });
}

async function record(
  generation: Generation,
  reason: 'start' | 'reload',
  { ledger, processId, log }: LedgerContext,
  before?: Config,
): Promise<void> {
  await claimConfiguredNames(generation.config, before, ledger, log);
  const { config, catalog, pipelines, snapshotId, number } = generation;
  const prints = [...catalog.plugins].map(([name, { fingerprint }]) => [name, fingerprint]);
  // Runs can use these definitions as soon as the generation is active.
  if (pipelines.length > 0) await ledger.runs.saveDefinitions(pipelines.map(({ graph }) => graph));
  await ledger.snapshots.insert({
    id: snapshotId,
    hash: config.fingerprint,
    config: JSON.stringify(config.redacted),
    plugins: JSON.stringify(Object.fromEntries(prints)),
    reason,
    generation: number,
    processId,
  });
  if (reason === 'start') await maskOldSnapshots(ledger);
}

/**
 * Masks snapshots that older programs recorded, once: those programs stored secrets in payloads and
 * steps.
 */
async function maskOldSnapshots(ledger: Ledger): Promise<void> {
  for (;;) {
    const rows = await ledger.snapshots.listUnmasked(limits.snapshotsMaskedAtOnce);
    if (rows.length === 0) return;
    const masked = rows.map(({ id, config }) => ({
      id,
      config: JSON.stringify(redact(parseStoredJson(config))),
    }));
    await ledger.snapshots.mask(masked);
  }
}

/** Returns the blueprint of the files as they were last read, without installations. */
function filesOf({ base, ...active }: Generation, { compile }: BlueprintSource): Blueprint {
  return base === undefined ? active : compile(base);
}

function readFiles({ config: active }: LedgerContext, { load }: BlueprintSource): Blueprint {
  let blueprint: Blueprint;
  try {
    blueprint = load(active);
  } catch (thrown) {
    const error = toDuctileError(thrown);
    const { message, place } = error;
    // A directive stores the message alone, and its reader needs the line.
    throw refused(place === undefined ? message : `${place}: ${message}`, error);
  }
  const fixed = findFixed(active, blueprint.config);
  if (fixed.length > 0) {
    const message = `${fixed.join(', ')} cannot change while the process runs`;
    throw refused(message, undefined, 'Undo the change, or restart the service.');
  }
  return blueprint;
}

function refused(message: string, cause?: DuctileError, hint?: string): DuctileError {
  const { place, details } = cause ?? {};
  return new DuctileError('RELOAD_REFUSED', message, { hint, place, details, cause });
}

const WOULD_BE_REFUSED = 'The reload will be refused: ';

/** Returns why a planned reload would be refused; undefined if it would succeed. */
export function findReloadRefusal(plan: readonly string[]): string | undefined {
  const refusal = plan.find((sentence) => sentence.startsWith(WOULD_BE_REFUSED));
  return refusal?.slice(WOULD_BE_REFUSED.length);
}
