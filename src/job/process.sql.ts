import { parseJson } from '../base/parse-json.ts';
import { listAbandoned } from '../directive/lifecycle.sql.ts';
import type { Row, Session, Transaction } from '../ledger/dialect.ts';
import { insertRow } from '../ledger/insert.ts';
import { int, readRows, text } from '../ledger/row.ts';
import type { LastLoad } from '../schedule/types.ts';
import { jobColumns, toJob } from './job.sql.ts';
import type { Job } from './job.ts';
import { isReady, withWaiting } from './queue.sql.ts';
import {
  processTable,
  type HeartbeatResult,
  type Orphan,
  type OrphanRequest,
  type ProcessBeat,
  type ProcessRow,
  type UnrunnableRequest,
} from './types.ts';

/** Records that a process is alive, and returns its claims. */
export async function recordHeartbeat(
  tx: Transaction,
  beat: ProcessBeat,
): Promise<HeartbeatResult> {
  const { dialect } = tx;
  const plugins = JSON.stringify(beat.plugins);
  const { configFile = null, configDigest = null } = beat;
  const [own] = await tx.run(
    `update ${dialect.table('processes')} set last_heartbeat_at = ${dialect.now},
      plugins_since = case when plugins = ? then plugins_since else ${dialect.now} end,
      plugins = ?, slots = ?, spawner = ?, config_file = ?, config_digest = ? where id = ?
      returning (select max(version) from ${dialect.table('schema_migrations')}) as schema_version`,
    [plugins, plugins, beat.slots, beat.spawner, configFile, configDigest, beat.id],
  );
  if (own === undefined) {
    const now = { sql: dialect.now };
    const row = { ...beat, pluginsSince: now, startedAt: now, lastHeartbeatAt: now };
    await insertRow(tx, processTable, row, 'on conflict (id) do nothing');
  }
  const running = await tx.run(
    `select id, claim_token, cancel_requested_at from ${dialect.table('job_queue')}
      where status = 'running' and claimed_by = ?`,
    [beat.id],
  );
  return {
    known: own !== undefined,
    ...(own === undefined ? {} : { schemaVersion: int(own, 'schema_version') }),
    running: running.map((row) => ({
      jobId: text(row, 'id'),
      claimToken: text(row, 'claim_token'),
      cancelRequested: row['cancel_requested_at'] !== null,
    })),
  };
}

/**
 * Deletes the row of a process that holds no claims. It takes the lock of claims, so that a concurrent
 * claim is either visible here or finds its process gone.
 */
export async function deleteProcess(tx: Transaction, processId: string): Promise<void> {
  if (tx.dialect.lockClaims !== undefined) await tx.run(tx.dialect.lockClaims);
  await tx.run(
    `delete from ${tx.dialect.table('processes')} where id = ? and not exists (
      select 1 from ${tx.dialect.table('job_queue')} j
        where j.status = 'running' and j.claimed_by = processes.id)`,
    [processId],
  );
}

/**
 * Locks the row of a process, and returns whether its last heartbeat is more recent than `staleMs`. A
 * `staleMs` of 0 means that the process is proven dead.
 */
export async function isProcessAlive(
  tx: Transaction,
  processId: string,
  staleMs: number,
): Promise<boolean> {
  const { dialect } = tx;
  const [row] = await tx.run(
    `select case when last_heartbeat_at <= ${dialect.nowPlus('?')} then 1 else 0 end as stale
      from ${dialect.table('processes')} where id = ? ${dialect.forUpdate}`,
    [-staleMs, processId],
  );
  return staleMs > 0 && row !== undefined && row['stale'] !== 1;
}

/**
 * Lists processes without a recent heartbeat, with what they left running, and claims of unknown
 * processes.
 */
export async function listOrphans(session: Session, request: OrphanRequest): Promise<Orphan[]> {
  const { dialect } = session;
  const cut = -request.staleMs;
  const stale = await session.run(
    `select id from ${dialect.table('processes')}
      where id <> ? and last_heartbeat_at <= (select ${dialect.nowPlus('?')})`,
    [request.self, cut],
  );
  // An expression: SQLite prefers to walk through all jobs in order over sorting the few that run.
  const left = await session.run(
    `select ${jobColumns} from ${dialect.table('job_queue')}
      left join ${dialect.table('processes')} on processes.id = job_queue.claimed_by
      where job_queue.status = 'running' and job_queue.claimed_by <> ?
        and (processes.id is null or processes.last_heartbeat_at <= (select ${dialect.nowPlus('?')}))
      order by job_queue.seq + 0`,
    [request.self, cut],
  );
  const directives = await listAbandoned(session, request.self, request.staleMs);
  const byProcess = new Map<string, Job[]>(stale.map((row) => [text(row, 'id'), []]));
  for (const { processId } of directives) byProcess.set(processId, byProcess.get(processId) ?? []);
  for (const job of left.map(toJob)) {
    const owner = job.claimedBy ?? '';
    byProcess.set(owner, [...(byProcess.get(owner) ?? []), job]);
  }
  return [...byProcess].map(([processId, jobs]) => ({
    processId,
    jobs,
    directives: directives.filter((directive) => directive.processId === processId),
  }));
}

/** Lists running jobs whose claim is older than any attempt can be. */
export async function listExpiredClaims(session: Session): Promise<Job[]> {
  const { dialect } = session;
  const rows = await session.run(
    `select ${jobColumns} from ${dialect.table('job_queue')}
      where status = 'running' and claim_expires_at <= (select ${dialect.now})`,
  );
  return rows.map(toJob);
}

const listed = processTable.pick(...processTable.except('plugins', 'pluginsSince'));

export async function listProcesses(session: Session): Promise<ProcessRow[]> {
  return await readRows(session, listed, 'order by started_at, id');
}

/** Lists the plugins of all live processes. */
export async function listLivePlugins(session: Session, staleMs: number): Promise<string[]> {
  const { dialect } = session;
  const live = await session.run(
    `select plugins from ${dialect.table('processes')}
      where last_heartbeat_at > (select ${dialect.nowPlus('?')})`,
    [-staleMs],
  );
  return [...new Set(live.flatMap((row) => parseJson(text(row, 'plugins')) as string[]))];
}

/** Finds the newest configuration snapshot, and the live process that loaded the latest one. */
export async function findLastLoaded(session: Session, staleMs: number): Promise<LastLoad> {
  const { dialect } = session;
  const snapshots = dialect.table('config_snapshots');
  const order = 'order by s.created_at desc, s.id desc limit 1';
  const [newest] = await session.run(`select s.id from ${snapshots} s ${order}`, []);
  const [live] = await session.run(
    `select s.process_id from ${snapshots} s
      join ${dialect.table('processes')} p on p.id = s.process_id
      where p.last_heartbeat_at > (select ${dialect.nowPlus('?')}) ${order}`,
    [-staleMs],
  );
  return {
    snapshotId: newest === undefined ? undefined : text(newest, 'id'),
    liveProcessId: live === undefined ? undefined : text(live, 'process_id'),
  };
}

/**
 * Lists old queued jobs of plugins that no live process has. Nothing is unrunnable until one
 * process has run for the whole grace time with its current plugins. Until then, the process that
 * has the plugin may be restarting.
 */
export async function listUnrunnable(session: Session, request: UnrunnableRequest): Promise<Job[]> {
  const { dialect } = session;
  const live = await session.run(
    `select plugins, case when coalesce(plugins_since, started_at) <= (select ${dialect.nowPlus('?')})
      then 1 else 0 end as old
      from ${dialect.table('processes')}
      where last_heartbeat_at > (select ${dialect.nowPlus('?')})`,
    [-request.graceMs, -request.staleMs],
  );
  if (!live.some((row) => row['old'] === 1)) return [];
  const known = new Set(live.flatMap((row) => parseJson(text(row, 'plugins')) as string[]));
  const waiting = await listWaitingPlugins(session);
  for (const plugin of request.unloaded ?? []) known.add(plugin);
  const unknown = waiting.filter((plugin) => !known.has(plugin));
  const found: Row[] = [];
  for (const plugin of unknown) {
    if (found.length >= request.limit) break;
    found.push(
      ...(await session.run(
        `select ${jobColumns} from ${dialect.table('job_queue')} where plugin = ?
          and ${isReady}
          and ready_at <= (select ${dialect.nowPlus('?')})
          order by coalesce(dependency_key, ''), seq limit ?`,
        [plugin, -request.graceMs, request.limit - found.length],
      )),
    );
  }
  return found.map(toJob);
}

/**
 * Lists the queued jobs of a plugin, delayed jobs included. Each statement has its own index: one
 * condition for both would read all jobs.
 */
export async function listQueuedOf(
  session: Session,
  plugin: string,
  limit: number,
): Promise<Job[]> {
  const jobs = session.dialect.table('job_queue');
  const ready = await session.run(
    `select ${jobColumns} from ${jobs} where plugin = ? and ${isReady}
      order by coalesce(dependency_key, ''), seq limit ?`,
    [plugin, limit],
  );
  const later = await session.run(
    `select ${jobColumns} from ${jobs} where status = 'queued' and next_retry_at is not null
      and plugin = ? order by next_retry_at limit ?`,
    [plugin, limit - ready.length],
  );
  return [...ready, ...later].map(toJob);
}

async function listWaitingPlugins(session: Session): Promise<string[]> {
  const rows = await session.run(`${withWaiting(session.dialect)} select plugin from waiting`);
  return rows.map((row) => text(row, 'plugin'));
}
