import { fromTimestamp, toTimestamp, type Timestamp } from '../../base/clock.ts';
import { toClaimable } from '../../engine/generation.ts';
import type { Engine } from '../../engine/engine.ts';
import type { Job } from '../../job/job.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Run } from '../../pipeline/run/run.ts';
import type { Signal } from '../../signal/signal.ts';
import {
  readUsualDuration,
  type UsualDuration,
  type ProgressFacts,
} from '../usual-duration.service.ts';
import type { PluginHealth } from '../../job/types.ts';
import type { PluginSwitch } from '../../job/types.ts';
import type { DependencyHolder, QueuePosition, RunningJob } from '../../job/types.ts';
import { findCredentials } from '../../base/credential-ref.ts';
import { readKeyIds } from '../../access/vault.service.ts';
import { locateKeyFile } from '../findings/credentials.ts';
import { readLastRecord } from '../findings/jobs.ts';
import { type DirectiveAuthor, readSystemPause } from '../findings/paused.ts';
import type { UnloadedPlugin } from '../findings/plugins.ts';
import type { OriginLink } from './explanation.ts';

/** The facts that can hold back everything in a ledger. */
export interface ServiceFacts {
  /** Service processes with a recent heartbeat. */
  readonly hosts: readonly { readonly id: string; readonly host: string; readonly slots: number }[];
  /** Why this process can't write to the ledger. */
  readonly trouble: string | undefined;
  readonly paused: DirectiveAuthor | undefined;
  readonly tenant:
    | {
        readonly slug: string;
        readonly held: 'tenant_limit' | 'tenant_suspended' | undefined;
        readonly workers: number | undefined;
      }
    | undefined;
}

/** The facts that can hold a plugin back. */
export interface PluginFacts {
  readonly name: string;
  readonly state: 'loaded' | 'disabled' | 'dormant' | 'broken' | 'unknown';
  /** A live process of some host has loaded it. */
  readonly isKnown: boolean;
  readonly switchedOff: PluginSwitch | undefined;
  /** Its init. Undefined if it has none, or if that succeeded. */
  readonly init: PluginHealth | undefined;
  /** Undefined without a limit. */
  readonly parallelism: number | undefined;
  /** Several of its jobs may run at a time. */
  readonly isConcurrencySafe?: boolean | undefined;
  readonly runnerGraceMs: number;
  /** Credentials of its configuration that this process can't open or find. */
  readonly credentials?: readonly CredentialFault[] | undefined;
  /** The file for credential keys. Undefined for a tenant. */
  readonly keyFile?: string | undefined;
  /** Why it didn't load. Undefined if it did. */
  readonly unloaded?: UnloadedPlugin | undefined;
}

/** A credential that a plugin needs and that is missing or can't be opened. */
export interface CredentialFault {
  readonly name: string;
  /** The missing key that sealed it. Undefined if it is missing or has expired. */
  readonly keyId: string | undefined;
  readonly expiredAt?: Timestamp | null | undefined;
}

/** The facts that can hold back a queued job. */
export interface WaitFacts {
  readonly job: Job;
  readonly service: ServiceFacts;
  readonly plugin: PluginFacts;
  readonly queue: QueuePosition;
  /** The job that holds its dependency key, or the first one that waits for the key. */
  readonly holder?: DependencyHolder | undefined;
  /** The database's time. */
  readonly now?: Timestamp | undefined;
  /** The usual durations of running jobs, by job id. */
  readonly usual?: ReadonlyMap<string, UsualDuration> | undefined;
}

/** The most links of a chain of causes. */
const LINKS_MAX = 7;

export async function readServiceFacts(engine: Engine): Promise<ServiceFacts> {
  const { ledger, config, quota, tenant } = engine;
  const [processes, paused, now] = await Promise.all([
    ledger.processes.list(),
    readSystemPause(ledger),
    ledger.now(),
  ]);
  const { reapAfterMs } = config.service;
  const since = toTimestamp(fromTimestamp(now) - reapAfterMs);
  return {
    hosts: processes.filter(({ lastHeartbeatAt }) => lastHeartbeatAt >= since),
    trouble: engine.status().detail,
    paused,
    tenant:
      tenant === undefined
        ? undefined
        : { slug: tenant, held: quota.skipReason(), workers: quota.workers() },
  };
}

export async function readPluginFacts(engine: Engine, name: string): Promise<PluginFacts> {
  return (await readAllPluginFacts(engine))(name);
}

/** Reads the facts that all plugins share, and returns a function for the facts of one. */
export async function readAllPluginFacts(engine: Engine): Promise<(name: string) => PluginFacts> {
  const { ledger, catalog, config } = engine;
  const { reapAfterMs, runnerGraceMs } = config.service;
  const [switches, health, live, faultsOf] = await Promise.all([
    ledger.plugins.listDisabled(),
    ledger.plugins.listHealth(),
    ledger.processes.listLivePlugins(reapAfterMs),
    readCredentialFaults(engine),
  ]);
  const known = new Set(live);
  const isRoot = engine.tenant === undefined;
  return (name) => {
    const plugin = catalog.plugins.get(name);
    const init = health.find(
      (row) => row.plugin === name && row.kind === 'init' && row.fingerprint === plugin?.identity,
    );
    const most = plugin === undefined ? Infinity : toClaimable(plugin, config).parallelism;
    return {
      name,
      state: findPluginState(name, { catalog }),
      isKnown: known.has(name),
      switchedOff: switches.find((one) => one.plugin === name),
      init: init?.status === 'healthy' ? undefined : init,
      parallelism: Number.isFinite(most) ? most : undefined,
      isConcurrencySafe: plugin?.manifest.concurrencySafe,
      runnerGraceMs,
      credentials: faultsOf(name),
      keyFile: isRoot ? locateKeyFile(config) : undefined,
      unloaded: findUnloaded(name, catalog, isRoot),
    };
  };
}

/** Reads which credentials of plugins are missing, or sealed with a key that isn't here. */
async function readCredentialFaults(
  engine: Engine,
): Promise<(plugin: string) => CredentialFault[]> {
  const rows = new Map((await engine.ledger.credentials.list()).map((row) => [row.name, row]));
  const keys = new Set(readKeyIds(engine));
  return (plugin) => {
    const used = findCredentials(engine.config.plugins[plugin]?.config ?? {});
    return [...new Set(used.map(({ name }) => name))].flatMap((name): CredentialFault[] => {
      const row = rows.get(name);
      if (row === undefined || row.isExpired) {
        return [{ name, keyId: undefined, expiredAt: row?.expiresAt }];
      }
      return keys.has(row.keyId) ? [] : [{ name, keyId: row.keyId }];
    });
  };
}

function findUnloaded(
  plugin: string,
  catalog: Engine['catalog'],
  isRoot: boolean,
): UnloadedPlugin | undefined {
  const reason = catalog.unloaded.get(plugin);
  return reason === undefined
    ? undefined
    : { plugin, reason: isRoot ? reason : undefined, catalog };
}

function findPluginState(name: string, { catalog }: Pick<Engine, 'catalog'>): PluginFacts['state'] {
  if (catalog.plugins.has(name)) return 'loaded';
  if (catalog.disabled.has(name)) return 'disabled';
  if (catalog.dormant.has(name)) return 'dormant';
  return catalog.problems.some(({ plugin }) => plugin === name) ? 'broken' : 'unknown';
}

export async function readWaitFacts(
  engine: Engine,
  job: Job,
  service: ServiceFacts,
): Promise<WaitFacts> {
  const { dependencyKey } = job;
  const { ledger } = engine;
  const [plugin, queue, holder, now] = await Promise.all([
    readPluginFacts(engine, job.plugin),
    ledger.jobs.readQueuePosition(job),
    dependencyKey === null ? undefined : ledger.jobs.findDependencyHolder(dependencyKey),
    ledger.now(),
  ]);
  return {
    job,
    service,
    plugin,
    queue,
    holder,
    now,
    usual: await readUsual(ledger, queue.running),
  };
}

/** The most jobs whose usual duration is read. The oldest are the ones that may hang. */
const COMPARED_MAX = 10;

async function readUsual(
  ledger: Ledger,
  running: readonly RunningJob[],
): Promise<ReadonlyMap<string, UsualDuration>> {
  const oldest = sortByAge(running).slice(0, COMPARED_MAX);
  const found = await Promise.all(oldest.map((job) => readUsualDuration(ledger, job)));
  return new Map(
    oldest.flatMap(({ id }, at) => {
      const usual = found[at];
      return usual === undefined ? [] : [[id, usual] as const];
    }),
  );
}

export function sortByAge(holders: readonly RunningJob[]): RunningJob[] {
  return holders.toSorted((a, b) => ((a.startedAt ?? '~') < (b.startedAt ?? '~') ? -1 : 1));
}

/** Reads how long a running job has run, and when it last recorded something. */
export async function readProgress(ledger: Ledger, job: Job): Promise<ProgressFacts | undefined> {
  const { id, startedAt } = job;
  if (startedAt === null) return undefined;
  const [now, usual, lastRecordAt] = await Promise.all([
    ledger.now(),
    readUsualDuration(ledger, job),
    readLastRecord(ledger, { id, startedAt }),
  ]);
  return { now, startedAt, lastRecordAt, usual };
}

type OriginStart = { readonly job: Job } | { readonly run: Run } | { readonly signal: Signal };

/** Reads the chain of causes back to the first one. Signals that the caller may not see are left out. */
export async function readOriginLinks(
  ledger: Ledger,
  from: OriginStart,
  isVisible: (signal: Signal) => boolean,
): Promise<OriginLink[]> {
  const links: OriginLink[] = [];
  for (let link: OriginLink | undefined = toLink(from); link !== undefined;) {
    if (link.kind !== 'signal' || isVisible(link.signal)) links.push(link);
    if (links.length === LINKS_MAX) {
      links.push({ kind: 'gap', rootJobId: rootOf(link) });
      break;
    }
    link = await readPreviousLink(ledger, link);
  }
  return links;
}

function toLink(from: OriginStart): OriginLink {
  if ('job' in from) return { kind: 'job', job: from.job };
  return 'run' in from ? { kind: 'run', run: from.run } : { kind: 'signal', signal: from.signal };
}

async function readPreviousLink(ledger: Ledger, link: OriginLink): Promise<OriginLink | undefined> {
  if (link.kind === 'gap') return undefined;
  if (link.kind === 'signal') {
    return link.signal.jobId === null ? undefined : await readJob(ledger, link.signal.jobId);
  }
  if (link.kind === 'job' && link.job.runId !== null) {
    const run = await ledger.runs.find(link.job.runId);
    return run === undefined ? undefined : { kind: 'run', run };
  }
  const { sourceEventId, parentJobId } = link.kind === 'job' ? link.job : link.run;
  if (sourceEventId !== null) {
    const [signal] = await ledger.signals.list({ id: sourceEventId, limit: 1 });
    if (signal !== undefined) return { kind: 'signal', signal };
  }
  return parentJobId === null ? undefined : await readJob(ledger, parentJobId);
}

async function readJob(ledger: Ledger, id: string): Promise<OriginLink | undefined> {
  const job = await ledger.jobs.find(id);
  return job === undefined ? undefined : { kind: 'job', job };
}

function rootOf(link: OriginLink): string {
  if (link.kind === 'gap') return link.rootJobId;
  if (link.kind === 'signal') return link.signal.correlationId;
  return link.kind === 'job' ? link.job.rootJobId : link.run.rootJobId;
}
