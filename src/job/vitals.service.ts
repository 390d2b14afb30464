import { hostname } from 'node:os';
import type { Log } from '../base/log.ts';
import type { Config } from '../config/config.ts';
import { digestConfigFiles } from '../config/integrity.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { ProcessBeat } from './types.ts';
import { schemaVersion } from '../ledger/migrate.ts';
import type { Host } from '../plugin/process.ts';
import type { Dispatcher } from './dispatcher.service.ts';
import type { Generation } from '../engine/generation.ts';
import { makeHeartbeat, type Heartbeat } from './heartbeat.service.ts';
import { makeReaper, type Reaper, type ReaperOptions } from './reaper.service.ts';
import { reaperRulesOf } from '../engine/rules.ts';
import type { TenantSelf } from '../tenant/tenants.ts';
import { compareClaims } from './compare-claims.service.ts';

export interface VitalsOptions {
  readonly processId: string;
  readonly version: string;
  readonly current: () => Generation;
  readonly ledger: Ledger;
  readonly host: Host;
  readonly dispatcher: Pick<Dispatcher, 'stopAll' | 'stopJob' | 'holds' | 'close' | 'wakeSurely'>;
  readonly onReaped: ReaperOptions['onReaped'];
  /** For a tenant: the state of the root's heartbeats, which go to the same database. */
  readonly tenant?: Pick<TenantSelf, 'mayJudge'> | undefined;
  /** A process is about to be forgotten that had died. */
  readonly onDeath: () => Promise<void>;
  readonly log: Log;
}

/** That this process lives, and what becomes of the work of those that do not. */
export interface Vitals {
  readonly heartbeat: Heartbeat;
  readonly reaper: Reaper;
  /** Resolves with the ledger's schema when a newer program has changed it. */
  readonly outgrown: Promise<number>;
  /** At the start on a file: whoever held its lock before is dead. */
  recover(): Promise<void>;
  /** Whether this process was well for a whole threshold, so that it may presume others dead. */
  mayJudge(): boolean;
  /** Whether others still believe that this process lives, so that it may start what it claims. */
  mayStart(): boolean;
  /**
   * Whether the parts still turn. A database that is away does not make it unsound: a restart would
   * not bring it back, and would cost what is running.
   */
  isSound(): boolean;
}

export function makeVitals(options: VitalsOptions): Vitals {
  const { processId, current, ledger, tenant, dispatcher, onReaped, log } = options;
  const outgrown = Promise.withResolvers<number>();
  // Until when processes may run here, in monotonic milliseconds.
  let fencedAt = ledger.kind === 'postgres' ? -Infinity : Infinity;
  const heartbeat = makePulse(options);
  const service = (): Generation['config']['service'] => current().config.service;
  const reaper = makeReaper({
    ledger,
    processId,
    everyMs: () => service().heartbeatIntervalMs,
    rules: () => reaperRulesOf(current()),
    mayJudge,
    onReaped,
    onDeath: options.onDeath,
    log: log.child('reaper'),
  });
  return {
    heartbeat,
    reaper,
    outgrown: outgrown.promise,
    async recover() {
      const jobs = ledger.kind === 'sqlite' ? await reaper.recover() : 0;
      if (jobs > 0) log.child('engine').warn('work of a crashed process recovered', { jobs });
    },
    mayJudge,
    mayStart,
    isSound() {
      const { heartbeatIntervalMs, reapAfterMs } = service();
      return performance.now() - heartbeat.lastRoundAt < heartbeatIntervalMs + reapAfterMs;
    },
  };

  function mayJudge(): boolean {
    return canJudge(heartbeat, service().reapAfterMs, tenant);
  }

  function mayStart(): boolean {
    return performance.now() < fencedAt;
  }
  function renew(host: Host, ms: number): void {
    const wasFenced = !mayStart();
    fencedAt = performance.now() + ms;
    host.renew(ms);
    if (wasFenced) dispatcher.wakeSurely();
  }

  function makePulse({ host, version }: VitalsOptions): Heartbeat {
    return makeHeartbeat({
      ledger,
      everyMs: () => service().heartbeatIntervalMs,
      silentMs: () => service().reapAfterMs,
      beat: () => ({
        id: processId,
        host: hostname(),
        pid: process.pid,
        version,
        slots: service().maxWorkers,
        spawner: host.rung,
        ...describeGeneration(current(), tenant === undefined),
      }),
      onBeat: (answer, agoMs) => {
        const { heartbeatIntervalMs, reapAfterMs } = service();
        // Only where others may take our claims do our processes have to end when we fall silent.
        // An answer that comes too late for that renews nothing: the next one tells whose they are.
        const leftMs = reapAfterMs - heartbeatIntervalMs - agoMs;
        if (ledger.kind === 'postgres' && leftMs > 0) renew(host, leftMs);
        compareClaims(answer, dispatcher, ledger, log.child('engine'));
        const { schemaVersion: found = schemaVersion } = answer;
        if (found > schemaVersion) outgrown.resolve(found);
      },
      onLost: () => dispatcher.stopAll('shutdown'),
      log: log.child('heartbeat'),
    });
  }
}

/** The files are named in the root ledger only: a tenant's says nothing about those of the operator. */
function describeGeneration(
  { catalog, config }: Generation,
  isRoot: boolean,
): Pick<ProcessBeat, 'plugins' | 'configFile' | 'configDigest'> {
  return { plugins: [...catalog.plugins.keys()], ...(isRoot ? describeConfig(config) : {}) };
}

const described = new WeakMap<Config, Pick<ProcessBeat, 'configFile' | 'configDigest'>>();

function describeConfig(config: Config): Pick<ProcessBeat, 'configFile' | 'configDigest'> {
  const known = described.get(config);
  if (known !== undefined) return known;
  const made = { configFile: config.file, configDigest: digestConfigFiles(config.files) };
  described.set(config, made);
  return made;
}

/**
 * After an outage of the database, all processes look dead to the first one that comes back. A tenant that was
 * just opened need not wait for its own heartbeats: the root's show that there was no outage.
 */
function canJudge(
  { unbrokenSince: since }: Heartbeat,
  reapAfterMs: number,
  tenant: VitalsOptions['tenant'],
): boolean {
  if (since === undefined || tenant?.mayJudge() === true) return since !== undefined;
  return performance.now() - since >= reapAfterMs;
}
