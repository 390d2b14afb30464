import { limits } from '../base/limits.ts';
import type { Dialect, Session, Transaction } from '../ledger/dialect.ts';
import { defineInsert } from '../ledger/insert.ts';
import { readRows } from '../ledger/row.ts';
import {
  observationTable,
  type Observation,
  type ObservationDraft,
  type ObservationKind,
} from './types.ts';

/** The length of a timestamp that is cut to ten minutes, such as `2030-01-31T12:3`. */
const BUCKET_CHARS = 15;

function bucketOf(moment: string): string {
  return `substr(${moment}, 1, ${BUCKET_CHARS})`;
}

function firstBucket(d: Dialect): string {
  return bucketOf(d.nowPlus(String(-limits.observations.windowMs)));
}

/** Adds counts, and deletes old buckets and the rarest keys of each kind. */
export async function recordObservations(
  tx: Transaction,
  drafts: readonly ObservationDraft[],
): Promise<void> {
  const { dialect: d } = tx;
  const table = d.table('observations');
  // A fixed order of locks, so that two hosts can't deadlock.
  const ordered = drafts.toSorted((a, b) => (a.kind + a.key < b.kind + b.key ? -1 : 1));
  await tx.each(upsert, ordered);
  await tx.run(`delete from ${table} where bucket < (select ${firstBucket(d)})`);
  for (const kind of new Set(drafts.map((draft) => draft.kind))) {
    await tx.run(
      `delete from ${table} where kind = ? and key in (
        select key from ${table} where kind = ? group by key
          order by sum(count) desc, key limit ? offset ?)`,
      [kind, kind, limits.observations.keysMax, limits.observations.keysMax],
    );
  }
}

const upsert = defineInsert(observationTable, {
  properties: ['kind', 'key', 'count', 'detail'],
  sql: (_, d) => ({ bucket: bucketOf(d.now), firstAt: d.now, lastAt: d.now }),
  rest: `on conflict (kind, key, bucket) do update set count = observations.count + excluded.count,
    last_at = excluded.last_at, detail = excluded.detail`,
});

/** Lists the observations of the window, summed up for each key, most frequent first. */
export async function listObservations(
  session: Session,
  kind: ObservationKind,
): Promise<Observation[]> {
  const { dialect: d } = session;
  const rows = await readRows(
    session,
    observationTable,
    `where kind = ? and bucket >= (select ${firstBucket(d)}) order by key, bucket`,
    [kind],
  );
  const found = [...Map.groupBy(rows, ({ key }) => key)].flatMap(([key, buckets]) => {
    const [first, last] = [buckets[0], buckets.at(-1)];
    if (first === undefined || last === undefined) return [];
    const { firstAt } = first;
    const { lastAt, detail } = last;
    const sum = buckets.reduce((total, { count }) => total + count, 0);
    return { kind, key, count: sum, firstAt, lastAt, detail };
  });
  return found.toSorted((a, b) => b.count - a.count || (a.key < b.key ? -1 : 1));
}
