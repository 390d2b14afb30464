import { fromTimestamp, toTimestamp } from '../../base/clock.ts';
import type { RunStatus } from './run.ts';
import { defineRows, type Transaction } from '../../ledger/dialect.ts';
import type { RunDraft, RunStart } from './types.ts';
import { text } from '../../ledger/row.ts';
import { insertRuns } from './insert.sql.ts';
import { inSavepoint } from '../../ledger/savepoint.ts';

export interface Accepted {
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
