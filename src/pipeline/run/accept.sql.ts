import { fromTimestamp, toTimestamp } from '../../base/clock.ts';
import type { RunStatus } from './run.ts';
import { defineRows, type Transaction, type Row } from '../../ledger/dialect.ts';
import type { RunDraft, RunStart } from './types.ts';
import { text } from '../../ledger/row.ts';
import { inSavepoint } from '../../ledger/savepoint.ts';
import type { RunRow } from './load-branch.sql.ts';

interface Accepted {
  /** What became of each draft, in their order. */
  readonly starts: readonly RunStart[];
  /** New ones that need not wait for anything. */
  readonly free: readonly string[];
  /** Whether new ones wait for others of their concurrency key. */
  readonly areInLine: boolean;
  /** Until the first of the new ones is due that wait for that. */
  readonly dueInMs: number | undefined;
  /** Those that were on the ledger before. */
  readonly repeated: readonly string[];
}

/**
 * Adds runs, each once, and of those with one dedupe key the first. A key is taken by a unique index,
 * so of two hosts only one succeeds; the other waits for its commit, and then finds whom to name.
 */
export async function acceptRuns(tx: Transaction, drafts: readonly RunDraft[]): Promise<Accepted> {
  const times = await readTimes(tx, drafts);
  const keyed = drafts.filter(({ dedupe }) => dedupe !== undefined).toSorted(byTarget);
  await tx.each(releaseExpired, keyed.map(toTarget));
  const starts = new Map<string, RunStart>();
  const fresh: RunDraft[] = [];
  let left = [...drafts.filter(({ dedupe }) => dedupe === undefined), ...keyed];
  // Who had the key may have given it back between being met and being looked for.
  while (left.length > 0) {
    const added = await insertRuns(tx, left, times.dueAt);
    fresh.push(...added);
    for (const draft of added) starts.set(draft.id, toStart(draft, times.dueAt));
    left = left.filter(({ id }) => !starts.has(id));
    for (const draft of left) {
      const found = await explain(tx, draft);
      if (found !== undefined) starts.set(draft.id, found);
    }
    left = left.filter(({ id }) => !starts.has(id));
  }
  const isNew = new Set(fresh.map(({ id }) => id));
  const waiting = fresh.filter(({ id }) => times.dueAt.has(id));
  const ready = fresh.filter(({ id }) => !times.dueAt.has(id));
  const inMs = waiting.map(({ id }) => fromTimestamp(times.dueAt.get(id) ?? '') - times.nowMs);
  return {
    starts: drafts.flatMap(({ id }) => starts.get(id) ?? []),
    free: ready.filter(({ concurrency }) => concurrency === undefined).map(({ id }) => id),
    areInLine: ready.some(({ concurrency }) => concurrency !== undefined),
    dueInMs: inMs.length === 0 ? undefined : Math.min(...inMs),
    repeated: [...starts.values()]
      .filter(({ runId, duplicateOf }) => duplicateOf === undefined && !isNew.has(runId))
      .map(({ runId }) => runId),
  };
}

interface Times {
  readonly nowMs: number;
  /** Of those whose time has not come. */
  readonly dueAt: ReadonlyMap<string, string>;
}

/** By the database's clock, read once: a run either waits for its time or does not. */
async function readTimes(tx: Transaction, drafts: readonly RunDraft[]): Promise<Times> {
  const dueAt = new Map<string, string>();
  if (drafts.every(({ due }) => due === undefined)) return { nowMs: 0, dueAt };
  const [row] = await tx.run(`select ${tx.dialect.now} as now`);
  const now = text(row ?? {}, 'now');
  const nowMs = fromTimestamp(now);
  for (const { id, due } of drafts) {
    if (due === undefined) continue;
    const at = 'at' in due ? due.at : toTimestamp(nowMs + due.inMs);
    if (at > now) dueAt.set(id, at);
  }
  return { nowMs, dueAt };
}

function byTarget(a: RunDraft, b: RunDraft): number {
  return targetOf(a) < targetOf(b) ? -1 : 1;
}

function targetOf({ dedupe, pipeline }: RunDraft): string {
  return JSON.stringify([dedupe?.key, pipeline]);
}

function toTarget({ dedupe, pipeline }: RunDraft): { held_key: string; pipeline: string } {
  return { held_key: dedupe?.key ?? '', pipeline };
}

const releaseExpired = defineRows({
  columns: { held_key: 'text', pipeline: 'text' },
  sql: (r, d) => `update ${d.table('pipeline_runs')} set held_key = null, held_until = null
    ${r.from}
    where pipeline_runs.held_key = ${r('held_key')} and pipeline_runs.held_key is not null
      and pipeline_runs.pipeline = ${r('pipeline')}
      and pipeline_runs.held_until <= (select ${d.now})`,
});

/**
 * A run that goes on with the work of another one has its key too, unless somebody else took it since.
 * Should that happen at this very moment, it goes on without.
 */
export async function inheritKey(
  tx: Transaction,
  { of, id }: { readonly of: string; readonly id: string },
): Promise<void> {
  const { dialect } = tx;
  const table = dialect.table('pipeline_runs');
  const isOfKey = `held_key = (select n.dedupe_key from ${table} n where n.id = ?)
    and held_key is not null and pipeline = (select n.pipeline from ${table} n where n.id = ?)`;
  await inSavepoint(tx, async (inner) => {
    await inner.run(
      `update ${table} set held_key = null, held_until = null
        where ${isOfKey} and (id = ? or held_until <= (select ${dialect.now}))`,
      [id, id, of],
    );
    await inner.run(
      `update ${table} set held_key = dedupe_key where id = ? and dedupe_key is not null
        and not exists (select 1 from ${table} h where h.held_key = pipeline_runs.dedupe_key
          and h.held_key is not null and h.pipeline = pipeline_runs.pipeline)`,
      [id],
    );
  });
}

function toStart({ id, concurrency }: RunDraft, dueAt: Times['dueAt']): RunStart {
  const isQueued = concurrency !== undefined || dueAt.has(id);
  return { runId: id, status: isQueued ? 'queued' : 'running' };
}

/** Not added: it was before, or another one has its key. */
async function explain(
  tx: Transaction,
  { id, pipeline, dedupe }: RunDraft,
): Promise<RunStart | undefined> {
  const table = tx.dialect.table('pipeline_runs');
  const [own] = await tx.run(`select status from ${table} where id = ?`, [id]);
  if (own !== undefined) return { runId: id, status: text(own, 'status') as RunStatus };
  if (dedupe === undefined) throw new Error(`run ${id} is neither new nor known`);
  const [holder] = await tx.run(
    `select id, status from ${table} where held_key = ? and held_key is not null and pipeline = ?`,
    [dedupe.key, pipeline],
  );
  if (holder === undefined) return undefined;
  return {
    runId: id,
    status: text(holder, 'status') as RunStatus,
    duplicateOf: text(holder, 'id'),
    dedupeKey: dedupe.key,
  };
}

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
