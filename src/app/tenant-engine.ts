import { engineRules } from '../ledger/rules.ts';
import { createHash } from 'node:crypto';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import type { Config } from '../config/config.ts';
import type { Blueprint } from '../engine/generation.ts';
import { makeRunner } from '../job/run-plugin.service.ts';
import { makeTenantPool } from '../tenant/pool.service.ts';
import type { TenantPool, TenantRow } from '../tenant/tenants.ts';
import { refuseUnisolated, type IsolationOf } from '../tenant/require-isolation.service.ts';
import { tenantLedger } from '../access/vault.service.ts';
import type { Vault } from '../access/vault.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { openSoundLedger } from '../ledger/open.ts';
import { locateTenantLedger } from '../ledger/tenant-location.ts';
import { makePrewarmPool } from '../plugin/prewarm.ts';
import type { Host, RunOptions } from '../plugin/process.ts';
import { compileForTenant, readTenantBlueprint } from './blueprint.ts';
import { confineTenant } from '../plugin/isolation.ts';
import type { ProcessContext } from '../engine/process-context.ts';
import { LedgerEngine } from '../engine/ledger-engine.ts';

/** Parts of this process that the ledgers of tenants share with the root ledger. */
interface TenantHost {
  readonly process: ProcessContext;
  readonly root: Ledger;
  /** Returns the active blueprint of the root ledger. */
  readonly current: () => Blueprint;
  readonly isPaused: () => boolean;
  /** True if the root's heartbeats were unbroken for a whole threshold. */
  readonly mayReap: () => boolean;
  readonly host: Host;
  readonly isolation: IsolationOf;
  readonly vault: Vault;
  readonly log: Log;
}

export function openTenants(shared: TenantHost): TenantPool<LedgerEngine> {
  const { root, current, log } = shared;
  return makeTenantPool({
    root,
    pollMs: () => current().config.service.pollIntervalMs,
    openLedger: (row) => openTenantLedger(row, shared),
    makeEngine: (row, ledger) => Promise.resolve(makeTenantEngine(row, ledger, shared)),
    schedules: () => digestSchedules(current().config),
    log: log.child('tenants'),
  });
}

/** Returns a digest of the schedules that tenants share. It is empty without any, so that no tenant is opened. */
function digestSchedules({ plugins }: Config): string {
  const shared = Object.entries(plugins)
    .filter(
      ([, { shared: isShared, enabled, schedules }]) => isShared && enabled && schedules.length > 0,
    )
    .map(([name, { schedules }]) => [name, schedules]);
  if (shared.length === 0) return '';
  return createHash('sha256').update(JSON.stringify(shared)).digest('hex');
}

/** Opens the ledger of a tenant. New work in it is recorded in the root ledger, which notifies other hosts. */
function openTenantLedger(
  { slug }: TenantRow,
  { root, current, log }: TenantHost,
): Promise<Ledger> {
  const { state } = current().config;
  const place = locateTenantLedger(state, slug);
  const announce = async (): Promise<void> => {
    await root.tenants.recordDue(slug, 'now').catch(() => undefined);
    root.hint();
  };
  const tenancy = {
    hint: throttle(announce),
    ...(state.kind === 'postgres' ? { rootSchema: state.schema } : {}),
  };
  return openSoundLedger(place, engineRules, undefined, log.forTenant(slug), tenancy);
}

/** Calls at once; further calls within a short time are combined into one. */
function throttle(announce: () => Promise<void>): () => void {
  let timer: NodeJS.Timeout | undefined;
  let isPending = false;
  const call = (): void => {
    isPending = timer !== undefined;
    if (isPending) return;
    void announce();
    timer = setTimeout(() => {
      timer = undefined;
      if (isPending) call();
    }, limits.tenantDueCheckMs).unref();
  };
  return call;
}

function makeTenantEngine(row: () => TenantRow, ledger: Ledger, shared: TenantHost): LedgerEngine {
  const { root, current, isPaused, isolation, vault } = shared;
  const { config } = current();
  const { slug } = row();
  const { version } = shared.process;
  refuseUnisolated(config, isolation);
  const facade = makeSharedHost(shared.host);
  const host = confineTenant(facade, slug, () => {
    const { config: now } = current();
    return { config: now, isolation: isolation(now) };
  });
  const log = shared.log.forTenant(slug);
  const spawnerLog = log.child('spawner');
  const pool = makePrewarmPool({
    host,
    log: (level, message, fields) => spawnerLog[level](message, fields),
  });
  const read = (): Blueprint => readTenantBlueprint(current(), version);
  return new LedgerEngine(shared.process, {
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
      mayReap: shared.mayReap,
      addKey: (kind, key) => root.tenants.insertKey(kind, key, slug),
      dropKey: (kind, key) => root.tenants.deleteKey(kind, key),
    },
    log,
  });
}

/**
 * Wraps the plugin host of the process for one tenant, which neither starts nor stops it. If the tenant
 * fails to renew its deadline, only its own attempts are ended.
 */
export function makeSharedHost(host: Host): Host {
  let fence = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const fenced = <T extends RunOptions>(options: T | undefined): T & RunOptions => {
    const { signal } = options ?? {};
    const both = signal === undefined ? fence.signal : AbortSignal.any([signal, fence.signal]);
    return { ...(options as T), signal: both };
  };
  return {
    get kind() {
      return host.kind;
    },
    start: () => Promise.resolve(),
    run: (spec, request, options) => host.run(spec, request, fenced(options)),
    hold(spec) {
      const held = host.hold(spec);
      return { ...held, feed: (request, options) => held.feed(request, fenced(options)) };
    },
    renew(ms) {
      clearTimeout(timer);
      if (fence.signal.aborted) fence = new AbortController();
      timer = setTimeout(() => fence.abort('shutdown'), ms).unref();
    },
    stop() {
      clearTimeout(timer);
      return Promise.resolve();
    },
  };
}
