import { fromTimestamp, toTimestamp } from '../../base/clock.ts';
import { toClaimable } from '../../engine/rules.ts';
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
import type { RunningJob } from '../../tenant/outlook.ts';
import { findCredentials } from '../../base/credential-ref.ts';
import { readKeyIds } from '../../access/vault.service.ts';
import { sortByAge } from './queue-causes.ts';
import type { OriginLink } from './origin.ts';
import type {
  DirectiveAuthor,
  CredentialFault,
  ServiceFacts,
  PluginFacts,
  WaitFacts,
} from './wait-facts.ts';

/** How far back a chain is told. */
const LINKS_MAX = 7;

export async function readServiceFacts(engine: Engine): Promise<ServiceFacts> {
  const { ledger, config, quota, tenant } = engine;
  const [processes, paused, now] = await Promise.all([
    ledger.processes.list(),
    ledger.meta.read('paused'),
    ledger.now(),
  ]);
  const { reapAfterMs } = config.service;
  const since = toTimestamp(fromTimestamp(now) - reapAfterMs);
  return {
    hosts: processes.filter(({ lastHeartbeatAt }) => lastHeartbeatAt >= since),
    trouble: engine.status().detail,
    paused: paused === '1' ? await readDirectiveAuthor(ledger, 'system.pause') : undefined,
    tenant:
      tenant === undefined
        ? undefined
        : { slug: tenant, held: quota.held(), workers: quota.workers() },
  };
}

/** Who did this last. */
export async function readDirectiveAuthor(
  ledger: Ledger,
  type: string,
  target?: string,
): Promise<DirectiveAuthor> {
  const [last] = await ledger.directives.list({
    type,
    status: ['completed'],
    ...(target === undefined ? {} : { target }),
    limit: 1,
  });
  return { actor: last?.actor ?? null, at: last?.completedAt ?? null };
}

export async function readPluginFacts(engine: Engine, name: string): Promise<PluginFacts> {
  return (await readAllPluginFacts(engine))(name);
}

/** Reads once what holds plugins, and returns the facts of any of them. */
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
      if (row === undefined) return [{ name, keyId: undefined }];
      return keys.has(row.keyId) ? [] : [{ name, keyId: row.keyId }];
    });
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

/** Jobs whose usual duration is read, the oldest first: those that may hang. */
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

/** Reads how long a running job has taken and been silent. */
export async function readProgress(ledger: Ledger, job: Job): Promise<ProgressFacts | undefined> {
  const { id, startedAt } = job;
  if (startedAt === null) return undefined;
  const [now, usual, [signal], [child]] = await Promise.all([
    ledger.now(),
    readUsualDuration(ledger, job),
    ledger.signals.list({ jobId: id, limit: 1 }),
    ledger.jobs.list({ parentJobId: id, limit: 1 }),
  ]);
  const records = [signal?.insertedAt, child?.createdAt].filter((at) => at !== undefined);
  return { now, startedAt, lastRecordAt: records.toSorted().at(-1), usual };
}

type OriginStart = { readonly job: Job } | { readonly run: Run } | { readonly signal: Signal };

/** From something back to what began it; signals that may not be seen are left out. */
export async function readOriginLinks(
  ledger: Ledger,
  from: OriginStart,
  isSeen: (signal: Signal) => boolean,
): Promise<OriginLink[]> {
  const links: OriginLink[] = [];
  for (let link: OriginLink | undefined = toLink(from); link !== undefined;) {
    if (link.kind !== 'signal' || isSeen(link.signal)) links.push(link);
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
