import { limits } from '../base/limits.ts';
import { defineRows, type Dialect, type Session, type Transaction } from '../ledger/dialect.ts';
import type { Observation, ObservationDraft, ObservationKind } from './types.ts';
import { int, text } from '../ledger/row.ts';

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
  await tx.each(
    upsert,
    ordered.map(({ kind, key, count, detail }) => ({ kind, key, count, detail })),
  );
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

const upsert = defineRows({
  columns: { kind: 'text', key: 'text', count: 'int', detail: 'text' },
  sql: (r, d) => `insert into ${d.table('observations')} as o
    (kind, key, bucket, count, first_at, last_at, detail)
    select ${r('kind')}, ${r('key')}, ${bucketOf(d.now)}, ${r('count')}, ${d.now}, ${d.now},
      ${r('detail')} ${r.from}
    where true
    on conflict (kind, key, bucket) do update set count = o.count + excluded.count,
      last_at = excluded.last_at, detail = excluded.detail`,
});

/** Lists the observations of the window, summed up for each key, most frequent first. */
export async function listObservations(
  session: Session,
  kind: ObservationKind,
): Promise<Observation[]> {
  const { dialect: d } = session;
  const rows = await session.run(
    `select * from ${d.table('observations')}
      where kind = ? and bucket >= (select ${firstBucket(d)}) order by key, bucket`,
    [kind],
  );
  const found = [...Map.groupBy(rows, (row) => text(row, 'key'))].flatMap(([key, buckets]) => {
    const [first, last] = [buckets[0], buckets.at(-1)];
    if (first === undefined || last === undefined) return [];
    return {
      kind,
      key,
      count: buckets.reduce((sum, row) => sum + int(row, 'count'), 0),
      firstAt: text(first, 'first_at'),
      lastAt: text(last, 'last_at'),
      detail: text(last, 'detail'),
    };
  });
  return found.toSorted((a, b) => b.count - a.count || (a.key < b.key ? -1 : 1));
}
