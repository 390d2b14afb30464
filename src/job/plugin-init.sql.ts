import type { Session, Transaction } from '../ledger/dialect.ts';
import { insertRow } from '../ledger/insert.ts';
import { readRows, text } from '../ledger/row.ts';
import { cancelJob } from './bulk.sql.ts';
import { enqueueJobs } from './enqueue.sql.ts';
import { healthTable, type HealthNote, type InitRequest, type PluginHealth } from './types.ts';

/**
 * Requests the inits of plugins, one per configuration. The process that inserts the row queues the
 * job; others find the row. Plugins are processed in the order of their names, so that two hosts
 * can't deadlock.
 */
export async function requireInits(
  tx: Transaction,
  requests: readonly InitRequest[],
): Promise<PluginHealth[]> {
  await recordEnded(tx);
  for (const request of requests.toSorted((one, two) => (one.plugin < two.plugin ? -1 : 1))) {
    if (request.why === 'adopted') await cancelSuperseded(tx, request);
    if (await insertPending(tx, request)) await enqueueJobs(tx, { jobs: [request.job] });
  }
  return await listHealth(tx);
}

/** Records the results of jobs that have ended, and returns the health of all plugins. */
export async function reviewHealth(tx: Transaction): Promise<PluginHealth[]> {
  await recordEnded(tx);
  return await listHealth(tx);
}

export async function listHealth(session: Session): Promise<PluginHealth[]> {
  const order = 'order by plugin_name, kind, updated_at, fingerprint';
  return await readRows(session, healthTable, order);
}

/** Records the result of a health check. Only the latest one is stored. */
export async function recordHealth(tx: Transaction, note: HealthNote): Promise<void> {
  const now = { sql: tx.dialect.now };
  await insertRow(
    tx,
    healthTable,
    { ...note, kind: 'health', fingerprint: '', updatedAt: now, seenAt: now },
    `on conflict (plugin_name, kind, fingerprint) do update set status = excluded.status,
      reason = excluded.reason, job_id = excluded.job_id, updated_at = excluded.updated_at,
      seen_at = excluded.seen_at`,
  );
}

/** Records the results of pending inits and health checks whose job has ended. */
async function recordEnded(tx: Transaction): Promise<void> {
  const { dialect } = tx;
  // An init that no process could start says nothing about the plugin. A host that has the plugin
  // may request it again.
  await tx.run(
    `delete from ${dialect.table('plugin_health')} where status = 'pending' and exists (
      select 1 from ${dialect.table('job_queue')} j
        where j.id = plugin_health.job_id and j.reason = 'no_runner')`,
  );
  await tx.run(
    `update ${dialect.table('plugin_health')} set
      status = case when j.status = 'succeeded' then 'healthy' else 'unhealthy' end,
      reason = case when j.status = 'succeeded' then null
        else coalesce(j.last_error, j.reason, j.status) end,
      updated_at = j.completed_at
    from ${dialect.table('job_queue')} j
    where plugin_health.status = 'pending' and j.id = plugin_health.job_id
      and j.completed_at is not null`,
  );
}

/** Cancels queued inits of other configurations: their host may never come back. */
async function cancelSuperseded(
  tx: Transaction,
  { plugin, fingerprint }: InitRequest,
): Promise<void> {
  const { dialect } = tx;
  const waiting = await tx.run(
    `select h.fingerprint, h.job_id from ${dialect.table('plugin_health')} h
      join ${dialect.table('job_queue')} j on j.id = h.job_id
      where h.plugin_name = ? and h.kind = 'init' and h.fingerprint <> ?
        and h.status = 'pending' and j.status = 'queued'`,
    [plugin, fingerprint],
  );
  for (const row of waiting) {
    if ((await cancelJob(tx, text(row, 'job_id'))) !== 'cancelled') continue;
    await tx.run(
      `delete from ${dialect.table('plugin_health')}
        where plugin_name = ? and kind = 'init' and fingerprint = ?`,
      [plugin, text(row, 'fingerprint')],
    );
  }
}

/** Inserts or resets the row of an init. Returns whether it must run: the first time, or on request. */
async function insertPending(
  tx: Transaction,
  { plugin, fingerprint, job, why }: InitRequest,
): Promise<boolean> {
  const { dialect } = tx;
  const table = dialect.table('plugin_health');
  const now = { sql: dialect.now };
  const inserted = await insertRow(
    tx,
    healthTable,
    {
      plugin,
      kind: 'init',
      fingerprint,
      status: 'pending',
      jobId: job.id,
      updatedAt: now,
      seenAt: now,
    },
    'on conflict (plugin_name, kind, fingerprint) do nothing returning job_id',
  );
  if (inserted.length > 0) return true;
  const renewed = await tx.run(
    `update ${table} set seen_at = ${dialect.now},
      status = case when ? = 'requested' then 'pending' else status end,
      reason = case when ? = 'requested' then null else reason end,
      job_id = case when ? = 'requested' then ? else job_id end
      where plugin_name = ? and kind = 'init' and fingerprint = ?
        and (? <> 'requested' or status <> 'pending') returning job_id`,
    [why, why, why, job.id, plugin, fingerprint, why],
  );
  return why === 'requested' && renewed.length > 0;
}
