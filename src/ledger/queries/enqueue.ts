import type { JobDraft } from '../../job/job.ts';
import { defineRows, type Row, type RowsStatement, type Transaction } from '../dialect.ts';
import type { EnqueueBatch, Enqueued } from '../ledger.ts';
import { text } from './row.ts';
import { insertSignals } from './signal.ts';

/** The one way work gets onto a ledger, alone or inside the settling of its cause. */
export async function enqueue(tx: Transaction, batch: EnqueueBatch): Promise<Enqueued[]> {
  if (batch.contexts !== undefined && batch.contexts.length > 0) {
    await tx.each(
      insertContexts,
      batch.contexts.map((context) => ({
        id: context.id,
        parent_id: context.parentId ?? null,
        accumulated_json: context.accumulated,
      })),
    );
  }
  await insertSignals(tx, batch.signals ?? []);
  const duplicates = await findDuplicates(tx, batch.jobs);
  const fresh = batch.jobs.filter((job) => !duplicates.has(job.id));
  if (fresh.length > 0) await tx.each(insertJobs, fresh.map(toRow));
  return batch.jobs.map((job) => {
    const duplicateOf = duplicates.get(job.id);
    if (duplicateOf === undefined) return { jobId: job.id };
    return { jobId: job.id, duplicateOf, dedupeKey: job.dedupe?.key ?? '' };
  });
}

const insertContexts = defineRows({
  columns: { id: 'text', parent_id: 'text', accumulated_json: 'text' },
  sql: (r, d) => `insert into ${d.table('event_context')}
    (id, parent_id, accumulated_json, created_at)
    select ${r('id')}, ${r('parent_id')}, ${r('accumulated_json')}, ${d.now} ${r.from}
    where true on conflict (id) do nothing`,
});

const insertJobs = defineRows({
  columns: {
    id: 'text',
    plugin: 'text',
    command: 'text',
    payload: 'text',
    max_attempts: 'int',
    submitted_by: 'text',
    actor: 'text',
    dedupe_key: 'text',
    dedupe_ttl_ms: 'int',
    parent_job_id: 'text',
    source_event_id: 'text',
    root_job_id: 'text',
    retry_of: 'text',
    idempotency_key: 'text',
    hops: 'int',
    runtime_caused: 'int',
    event_context_id: 'text',
  },
  sql: (r, d) => `insert into ${d.table('job_queue')}
    (id, plugin, command, payload, status, max_attempts, submitted_by, actor, dedupe_key,
      dedupe_ttl_ms, parent_job_id, source_event_id, root_job_id, retry_of, idempotency_key, hops,
      runtime_caused, event_context_id, created_at, ready_at)
    select ${r('id')}, ${r('plugin')}, ${r('command')}, ${r('payload')}, 'queued',
      ${r('max_attempts')}, ${r('submitted_by')}, ${r('actor')}, ${r('dedupe_key')},
      ${r('dedupe_ttl_ms')}, ${r('parent_job_id')}, ${r('source_event_id')}, ${r('root_job_id')},
      ${r('retry_of')}, ${r('idempotency_key')}, ${r('hops')}, ${r('runtime_caused')},
      ${r('event_context_id')}, ${d.now}, ${d.now} ${r.from}
    where true on conflict (id) do nothing`,
});

function toRow(job: JobDraft): Row {
  return {
    id: job.id,
    plugin: job.plugin,
    command: job.command,
    payload: job.payload,
    max_attempts: job.maxAttempts,
    submitted_by: job.submittedBy,
    actor: job.actor,
    dedupe_key: job.dedupe?.key ?? null,
    dedupe_ttl_ms: job.dedupe?.ttlMs ?? null,
    parent_job_id: job.parentJobId ?? null,
    source_event_id: job.sourceEventId ?? null,
    root_job_id: job.rootJobId ?? job.id,
    retry_of: job.retryOf ?? null,
    idempotency_key: job.idempotencyKey ?? job.id,
    hops: job.hops ?? 0,
    runtime_caused: job.runtimeCaused === true ? 1 : 0,
    event_context_id: job.eventContextId ?? null,
  };
}

/**
 * Takes the dedupe row of each keyed job, and answers for each that could not be taken with the job
 * that holds it. The row is taken by one conditional upsert, so of two hosts only one succeeds.
 */
async function findDuplicates(
  tx: Transaction,
  jobs: readonly JobDraft[],
): Promise<Map<string, string>> {
  const duplicates = new Map<string, string>();
  const takers = new Map<string, JobDraft>();
  for (const job of jobs) {
    if (job.dedupe === undefined) continue;
    const target = targetOf(job.dedupe.key, job.plugin, job.command);
    const earlier = takers.get(target);
    if (earlier !== undefined && job.dedupe.blockInFlight) duplicates.set(job.id, earlier.id);
    else takers.set(target, job);
  }
  if (takers.size === 0) return duplicates;
  // A fixed order of locks, so that two batches with the same keys cannot deadlock.
  const ordered = [...takers].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, job]) => job);
  const strict = ordered.filter((job) => job.dedupe?.blockInFlight === true);
  const lenient = ordered.filter((job) => job.dedupe?.blockInFlight === false);
  const taken = [
    ...(await tx.each(takeUnlessBlocked, strict.map(toDedupeRow))),
    ...(await tx.each(takeUnlessSucceeded, lenient.map(toDedupeRow))),
  ];
  const takenIds = new Set(taken.map((row) => text(row, 'job_id')));
  const refused = ordered.filter((job) => !takenIds.has(job.id));
  if (refused.length === 0) return duplicates;
  const holders = new Map<string, string>();
  for (const row of await tx.each(selectHolders, refused.map(toDedupeRow))) {
    const target = targetOf(text(row, 'dedupe_key'), text(row, 'plugin'), text(row, 'command'));
    holders.set(target, text(row, 'job_id'));
  }
  for (const job of refused) {
    const holder = holders.get(targetOf(job.dedupe?.key ?? '', job.plugin, job.command));
    duplicates.set(job.id, holder ?? 'unknown');
  }
  return duplicates;
}

function targetOf(key: string, plugin: string, command: string): string {
  return JSON.stringify([key, plugin, command]);
}

function toDedupeRow(job: JobDraft): Row {
  const { id, plugin, command, dedupe } = job;
  return { dedupe_key: dedupe?.key ?? null, plugin, command, job_id: id };
}

const dedupeColumns = {
  dedupe_key: 'text',
  plugin: 'text',
  command: 'text',
  job_id: 'text',
} as const;

/** Both forms let a job that asks again, and one whose predecessor's time is over, have the row. */
function takeDedupe(inFlight: 'blocks' | 'is-passed'): RowsStatement {
  return defineRows({
    columns: dedupeColumns,
    sql: (r, d) => `insert into ${d.table('job_dedupe')} as d
      (dedupe_key, plugin, command, job_id, blocks_until)
      select ${r('dedupe_key')}, ${r('plugin')}, ${r('command')}, ${r('job_id')}, null ${r.from}
      where true
      on conflict (dedupe_key, plugin, command) do update
        set job_id = excluded.job_id, blocks_until = null
        where d.job_id = excluded.job_id
          or d.blocks_until <= (select ${d.now})
          ${inFlight === 'is-passed' ? 'or d.blocks_until is null' : ''}
      returning job_id`,
  });
}

const takeUnlessBlocked = takeDedupe('blocks');
const takeUnlessSucceeded = takeDedupe('is-passed');

const selectHolders = defineRows({
  columns: dedupeColumns,
  sql: (r, d) => `select q.dedupe_key, q.plugin, q.command, q.job_id from ${r.lateral(
    `select h.* from ${d.table('job_dedupe')} h where h.dedupe_key = ${r('dedupe_key')}
      and h.plugin = ${r('plugin')} and h.command = ${r('command')}`,
  )}`,
});
