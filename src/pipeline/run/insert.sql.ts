import { defineRows, type Row, type Transaction } from '../../ledger/dialect.ts';
import type { RunDraft } from './types.ts';
import { text } from '../../ledger/row.ts';
import type { RunRow } from './run-row.sql.ts';

/** Adds runs, each once and of each dedupe key one; gives those that are new. */
export async function insertRuns(
  tx: Transaction,
  drafts: readonly RunDraft[],
  /** Of those that have to wait for their time. */
  dueAt: ReadonlyMap<string, string> = new Map(),
): Promise<RunDraft[]> {
  const listener = tx.ends?.listener ?? null;
  const rows = await tx.each(
    insert,
    drafts.map((draft) => toRow(draft, listener, dueAt.get(draft.id) ?? null)),
  );
  const isNew = new Set(rows.map((row) => text(row, 'id')));
  return drafts.filter(({ id }) => isNew.has(id));
}

/** Runs that are under way begin where an advancer takes them up. */
export async function leaveRoots(
  tx: Transaction,
  runs: readonly Pick<RunRow, 'id' | 'payload' | 'eventContextId'>[],
): Promise<void> {
  await tx.each(
    insertLeftRoots,
    runs.map(({ id, payload, eventContextId }) => ({
      id,
      payload,
      event_context_id: eventContextId,
    })),
  );
}

const insert = defineRows({
  columns: {
    id: 'text',
    pipeline: 'text',
    definition_hash: 'text',
    status: 'text',
    payload: 'text',
    submitted_by: 'text',
    actor: 'text',
    source_event_id: 'text',
    parent_job_id: 'text',
    first_job_id: 'text',
    root_job_id: 'text',
    lineage: 'text',
    hops: 'int',
    runtime_caused: 'int',
    event_context_id: 'text',
    concurrency_key: 'text',
    concurrency_limit: 'int',
    awaited_by: 'text',
    due_at: 'text',
    dedupe_key: 'text',
    dedupe_ttl_ms: 'int',
  },
  sql: (r, d) => `insert into ${d.table('pipeline_runs')}
    (id, pipeline, definition_hash, status, payload, submitted_by, actor, source_event_id,
      parent_job_id, first_job_id, root_job_id, lineage, hops, runtime_caused, event_context_id,
      concurrency_key, concurrency_limit, awaited_by, due_at, dedupe_key, dedupe_ttl_ms, held_key,
      created_at, started_at)
    select ${r('id')}, ${r('pipeline')}, ${r('definition_hash')}, ${r('status')}, ${r('payload')},
      ${r('submitted_by')}, ${r('actor')}, ${r('source_event_id')}, ${r('parent_job_id')},
      ${r('first_job_id')}, ${r('root_job_id')}, ${r('lineage')}, ${r('hops')},
      ${r('runtime_caused')}, ${r('event_context_id')}, ${r('concurrency_key')},
      ${r('concurrency_limit')}, ${r('awaited_by')}, ${r('due_at')}, ${r('dedupe_key')},
      ${r('dedupe_ttl_ms')}, ${r('dedupe_key')}, ${d.now},
      case when ${r('status')} = 'running' then ${d.now} end
      ${r.from}
    where true on conflict do nothing returning id`,
});

function toRow(draft: RunDraft, listener: string | null, dueAt: string | null): Row {
  return {
    id: draft.id,
    pipeline: draft.pipeline,
    definition_hash: draft.definitionHash,
    status: draft.concurrency === undefined && dueAt === null ? 'running' : 'queued',
    payload: draft.payload,
    submitted_by: draft.submittedBy,
    actor: draft.actor,
    source_event_id: draft.sourceEventId ?? null,
    parent_job_id: draft.parentJobId ?? null,
    first_job_id: draft.firstJobId,
    root_job_id: draft.rootJobId ?? draft.firstJobId,
    lineage: draft.lineage ?? draft.id,
    hops: draft.hops ?? 0,
    runtime_caused: draft.runtimeCaused === true ? 1 : 0,
    event_context_id: draft.eventContextId ?? null,
    concurrency_key: draft.concurrency?.key ?? null,
    concurrency_limit: draft.concurrency?.limit ?? null,
    awaited_by: draft.isAwaited === true ? listener : null,
    due_at: dueAt,
    dedupe_key: draft.dedupe?.key ?? null,
    dedupe_ttl_ms: draft.dedupe?.ttlMs ?? null,
  };
}

/** It stands before the first step, whichever that is: the advancer finds out. */
const insertLeftRoots = defineRows({
  columns: { id: 'text', payload: 'text', event_context_id: 'text' },
  sql: (r, d) => `insert into ${d.table('run_branches')}
    (id, run_id, path, node, status, payload, is_whole, event_context_id, outcome, due_at,
      created_at)
    select ${r('id')}, ${r('id')}, '0', '', 'advancing', ${r('payload')}, 1,
      ${r('event_context_id')}, '{"kind":"start"}', ${d.now}, ${d.now} ${r.from}
    where true on conflict (id) do nothing`,
});
