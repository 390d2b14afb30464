import { engineRules } from '../ledger/rules.ts';
import { createHash } from 'node:crypto';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import type { Config } from '../config/config.ts';
import { makeFacadeHost } from '../tenant/shared-host.service.ts';
import type { Blueprint } from '../engine/generation.ts';
import { makeRunner } from '../job/run-plugin.service.ts';
import { makeTenants } from '../tenant/pool.service.ts';
import type { TenantKeeper } from '../tenant/tenants.ts';
import { refuseUnisolated, type IsolationOf } from '../tenant/require-isolation.service.ts';
import { tenantLedger } from '../access/vault.service.ts';
import type { Vault } from '../access/vault.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { openSoundLedger } from '../ledger/open.ts';
import { tenantPlace } from '../ledger/tenant-location.ts';
import type { TenantRow } from '../tenant/types.ts';
import { makePrewarmPool } from '../plugin/prewarm.ts';
import type { Host } from '../plugin/process.ts';
import { compileForTenant, readTenantBlueprint } from './blueprint.ts';
import { confineTenant } from './isolation.ts';
import type { ProcessContext } from '../engine/process-context.ts';
import { LedgerEngine } from '../engine/ledger-engine.ts';

/** Parts of this process that the ledgers of tenants share with the root ledger. */
export interface TenantHost {
  readonly process: ProcessContext;
  readonly root: Ledger;
  /** Active blueprint of the root ledger. */
  readonly current: () => Blueprint;
  readonly isPaused: () => boolean;
  /** True if the root's heartbeats were unbroken for a whole threshold. */
  readonly mayReap: () => boolean;
  readonly host: Host;
  readonly isolation: IsolationOf;
  readonly vault: Vault;
  readonly log: Log;
}

export function openTenants(household: TenantHost): TenantKeeper<LedgerEngine> {
  const { root, current, log } = household;
  return makeTenants({
    root,
    pollMs: () => current().config.service.pollIntervalMs,
    openLedger: (row) => openTenantLedger(row, household),
    makeEngine: (row, ledger) => Promise.resolve(makeTenantEngine(row, ledger, household)),
    schedules: () => nameSchedules(current().config),
    log: log.child('tenants'),
  });
}

/** Empty without schedules, so that no tenant is opened for nothing. */
function nameSchedules({ plugins }: Config): string {
  const shared = Object.entries(plugins)
    .filter(
      ([, { shared: isShared, enabled, schedules }]) => isShared && enabled && schedules.length > 0,
    )
    .map(([name, { schedules }]) => [name, schedules]);
  if (shared.length === 0) return '';
  return createHash('sha256').update(JSON.stringify(shared)).digest('hex');
}

/** On PostgreSQL the others hear of work in it from the root ledger, where it is due now. */
function openTenantLedger(
  { slug }: TenantRow,
  { root, current, log }: TenantHost,
): Promise<Ledger> {
  const { state } = current().config;
  const place = tenantPlace(state, slug);
  const announce = async (): Promise<void> => {
    await root.tenants.recordDue(slug, 'now').catch(() => undefined);
    root.hint();
  };
  const tenancy = {
    hint: rarely(announce),
    ...(state.kind === 'postgres' ? { rootSchema: state.schema } : {}),
  };
  return openSoundLedger(place, engineRules, undefined, log.forTenant(slug), tenancy);
}

/** Runs at once; calls that follow soon are combined. */
function rarely(announce: () => Promise<void>): () => void {
  let quiet: NodeJS.Timeout | undefined;
  let isOwed = false;
  const call = (): void => {
    isOwed = quiet !== undefined;
    if (isOwed) return;
    void announce();
    quiet = setTimeout(() => {
      quiet = undefined;
      if (isOwed) call();
    }, limits.tenantAgainMs).unref();
  };
  return call;
}

function makeTenantEngine(
  row: () => TenantRow,
  ledger: Ledger,
  household: TenantHost,
): LedgerEngine {
  const { root, current, isPaused, host: shared, isolation, vault, log: whole } = household;
  const { config } = current();
  const { slug } = row();
  const { version } = household.process;
  refuseUnisolated(config, isolation);
  const facade = makeFacadeHost(shared);
  const host = confineTenant(facade, slug, () => {
    const { config: now } = current();
    return { config: now, isolation: isolation(now) };
  });
  const log = whole.forTenant(slug);
  const spawnerLog = log.child('spawner');
  const pool = makePrewarmPool({
    host,
    log: (level, message, fields) => spawnerLog[level](message, fields),
  });
  const read = (): Blueprint => readTenantBlueprint(current(), version);
  return new LedgerEngine(household.process, {
    blueprint: read(),
    source: {
      load: read,
      compile: (extended) => compileForTenant(extended, current(), version),
    },
    ledger,
    host,
    runner: makeRunner(host, pool),
    vault: vault.forLedger(tenantLedger(slug)),
    tenant: {
      slug,
      row,
      isHeld: isPaused,
      mayReap: household.mayReap,
      addKey: (kind, key) => root.tenants.insertKey(kind, key, slug),
      dropKey: (kind, key) => root.tenants.deleteKey(kind, key),
    },
    log,
  });
}
