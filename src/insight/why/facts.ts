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
import type { DependencyHolder, QueuePosition, RunningJob } from '../../job/types.ts';
import { findCredentials } from '../../base/credential-ref.ts';
import { readKeyIds } from '../../access/vault.service.ts';
import type { LiveFinding } from '../finding.ts';
import { credentialKeyMissing, credentialMissing, locateKeyFile } from '../findings/credentials.ts';
import { readLastRecord } from '../findings/jobs.ts';
import { type DirectiveAuthor, partPaused, readSystemPause } from '../findings/paused.ts';
import { pluginNotLoaded } from '../findings/plugins.ts';
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
  /** Findings that hold it back: it is disabled or didn't load, or its credentials are missing. */
  readonly holds: readonly LiveFinding[];
  /** Its init. Undefined if it has none, or if that succeeded. */
  readonly init: PluginHealth | undefined;
  /** Undefined without a limit. */
  readonly parallelism: number | undefined;
  /** Several of its jobs may run at a time. */
  readonly isConcurrencySafe?: boolean | undefined;
  readonly runnerGraceMs: number;
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
  const [switches, health, live, findCredentialHolds] = await Promise.all([
    ledger.plugins.listDisabled(),
    ledger.plugins.listHealth(),
    ledger.processes.listLivePlugins(reapAfterMs),
    readCredentialHolds(engine),
  ]);
  const known = new Set(live);
  const isRoot = engine.tenant === undefined;
  return (name) => {
    const plugin = catalog.plugins.get(name);
    const init = health.find(
      (row) => row.plugin === name && row.kind === 'init' && row.fingerprint === plugin?.identity,
    );
    const state = findPluginState(name, { catalog });
    const most = plugin === undefined ? Infinity : toClaimable(plugin, config).parallelism;
    return {
      name,
      state,
      isKnown: known.has(name),
      holds: [
        ...findCredentialHolds(name),
        ...switches
          .filter((one) => one.plugin === name)
          .map(({ changedBy: actor, changedAt: at }) =>
            partPaused.describe({ noun: 'plugin', name, author: { actor, at } }),
          ),
        ...(state === 'broken' && !known.has(name)
          ? [pluginNotLoaded.describe({ plugin: name, catalog, isRoot })]
          : []),
      ],
      init: init?.status === 'healthy' ? undefined : init,
      parallelism: Number.isFinite(most) ? most : undefined,
      isConcurrencySafe: plugin?.manifest.concurrencySafe,
      runnerGraceMs,
    };
  };
}

/** Reads which credentials of plugins are missing, or sealed with a key that isn't here. */
async function readCredentialHolds(engine: Engine): Promise<(plugin: string) => LiveFinding[]> {
  const { ledger, config, tenant } = engine;
  const rows = new Map((await ledger.credentials.list()).map((row) => [row.name, row]));
  const keys = new Set(readKeyIds(engine));
  const file = tenant === undefined ? locateKeyFile(config) : undefined;
  return (plugin) => {
    const used = findCredentials(config.plugins[plugin]?.config ?? {});
    const names = [...new Set(used.map(({ name }) => name))];
    const good = names.flatMap((name) => rows.get(name) ?? []).filter((row) => !row.isExpired);
    const missing = names.filter((name) => !good.some((row) => row.name === name));
    const unopened = Map.groupBy(
      good.filter(({ keyId }) => !keys.has(keyId)),
      ({ keyId }) => keyId,
    );
    return [
      ...missing.map((name) => {
        const expiredAt = rows.get(name)?.expiresAt ?? null;
        return credentialMissing.describe({ name, usedBy: [`plugin ${plugin}`], expiredAt });
      }),
      ...[...unopened].map(([keyId, sealed]) => {
        const credentials = sealed.map(({ name }) => name);
        return credentialKeyMissing.describe({ keyId, credentials, webhooks: [], file });
      }),
    ];
  };
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
