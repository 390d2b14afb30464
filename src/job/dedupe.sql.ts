import type { Closing } from '../ledger/commit.ts';
import { defineRows, type Row, type RowsStatement, type Transaction } from '../ledger/dialect.ts';
import { text } from '../ledger/row.ts';
import { isTerminal, type JobDraft } from './job.ts';

/**
 * Claims the dedupe keys of jobs. For each job that must not be added, returns the job that does or
 * did its work. A strict job is blocked by a job that is queued or running, too; a lenient job only by
 * a success. Among several jobs of a batch with one target, the first one blocks the strict ones after
 * it. The lenient ones share the result of the last of them.
 */
export async function findDuplicates(
  tx: Transaction,
  jobs: readonly JobDraft[],
): Promise<Map<string, string>> {
  const groups = [...groupByTarget(jobs).values()];
  const duplicates = await claimKeys(
    tx,
    groups.flatMap((group) => group.slice(0, 1)),
  );
  const wide = groups.filter((group) => group.length > 1);
  if (wide.length === 0) return duplicates;
  const lastOf = (group: readonly JobDraft[]): JobDraft | undefined =>
    group.slice(1).findLast(({ dedupe }) => dedupe?.blockInFlight === false);
  const refused = await claimKeys(
    tx,
    wide.flatMap((group) => lastOf(group) ?? []),
  );
  for (const group of wide) {
    const [first, ...others] = group;
    const decided = first?.id ?? '';
    const strictHolder = duplicates.get(decided) ?? decided;
    const lenientHolder = refused.get(lastOf(group)?.id ?? '');
    for (const { id, dedupe } of others) {
      const holder = dedupe?.blockInFlight === true ? strictHolder : lenientHolder;
      if (holder !== undefined) duplicates.set(id, holder);
    }
  }
  return duplicates;
}

function groupByTarget(jobs: readonly JobDraft[]): Map<string, JobDraft[]> {
  const groups = new Map<string, JobDraft[]>();
  for (const job of jobs) {
    if (job.dedupe === undefined) continue;
    const target = targetOf(job.dedupe.key, job.plugin, job.command);
    const group = groups.get(target);
    if (group === undefined) groups.set(target, [job]);
    else group.push(job);
  }
  return groups;
}

/**
 * Claims the dedupe rows of jobs with different targets. Returns the holder for each job that is
 * refused. A conditional upsert claims the row, so only one of two hosts succeeds. A refusal locks the
 * row, too, so that its holder can't disappear.
 */
async function claimKeys(tx: Transaction, jobs: readonly JobDraft[]): Promise<Map<string, string>> {
  if (jobs.length === 0) return new Map();
  // Lock in a fixed order, so that two batches with the same keys can't deadlock.
  const ordered = jobs
    .map((job) => ({ job, target: targetOf(job.dedupe?.key ?? '', job.plugin, job.command) }))
    .sort((a, b) => (a.target < b.target ? -1 : 1))
    .map(({ job }) => job);
  const strict = ordered.filter(({ dedupe }) => dedupe?.blockInFlight === true);
  const lenient = ordered.filter(({ dedupe }) => dedupe?.blockInFlight === false);
  const claimed = [
    ...(await tx.each(claimStrict, strict.map(toDedupeRow))),
    ...(await tx.each(claimLenient, lenient.map(toDedupeRow))),
  ];
  const claimedIds = new Set(claimed.map((row) => text(row, 'job_id')));
  return findKeyHolders(
    tx,
    ordered.filter(({ id }) => !claimedIds.has(id)),
  );
}

/** Finds the holder of each job's key, unless the job itself is in the ledger. */
export async function findKeyHolders(
  tx: Transaction,
  jobs: readonly JobDraft[],
): Promise<Map<string, string>> {
  const rows = await tx.each(selectHolders, jobs.map(toDedupeRow));
  return new Map(rows.map((row) => [text(row, 'wanted_by'), text(row, 'holder')]));
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

/**
 * Defines the statement that claims keys. It ignores a holder whose time is over. It doesn't claim a
 * key for a job that is already in the ledger: the job may have ended, and would hold its key forever.
 */
function defineClaim(isStrict: boolean): RowsStatement {
  return defineRows({
    columns: dedupeColumns,
    sql: (r, d) => `insert into ${d.table('job_dedupe')} as d
      (dedupe_key, plugin, command, job_id, blocks_until)
      select ${r('dedupe_key')}, ${r('plugin')}, ${r('command')}, ${r('job_id')}, null ${r.from}
      where not exists (select 1 from ${d.table('job_queue')} j where j.id = ${r('job_id')})
      on conflict (dedupe_key, plugin, command) do update
        set job_id = excluded.job_id,
          blocks_until = case when d.job_id = excluded.job_id then d.blocks_until end
        where d.job_id = excluded.job_id
          or d.blocks_until <= (select ${d.now})
          ${isStrict ? '' : 'or d.blocks_until is null'}
      returning job_id`,
  });
}

const claimStrict = defineClaim(true);
const claimLenient = defineClaim(false);

/** Returns nothing for a job that is already in the ledger: it isn't a duplicate of itself. */
const selectHolders = defineRows({
  columns: dedupeColumns,
  sql: (r, d) =>
    `select q.wanted_by, q.holder from ${r.lateral(
      `select ${r('job_id')} as wanted_by, h.job_id as holder from ${d.table('job_dedupe')} h
      where h.dedupe_key = ${r('dedupe_key')} and h.plugin = ${r('plugin')}
        and h.command = ${r('command')}
        and not exists (select 1 from ${d.table('job_queue')} j where j.id = ${r('job_id')})`,
    )}`,
});

/** Keeps the key of a success for the TTL. Any other final end releases the key. */
export async function recordDedupe(tx: Transaction, closed: readonly Closing[]): Promise<void> {
  const keyed = closed
    .filter(({ job, ending }) => job.dedupeKey !== null && isTerminal(ending.status))
    .sort((a, b) => ((a.job.dedupeKey ?? '') < (b.job.dedupeKey ?? '') ? -1 : 1));
  const succeeded = keyed.filter(({ ending }) => ending.status === 'succeeded');
  const others = keyed.filter(({ ending }) => ending.status !== 'succeeded');
  if (succeeded.length > 0) await tx.each(extendKey, lastOfEachKey(succeeded).map(toKeyRow));
  if (others.length > 0) await tx.each(deleteKey, others.map(toKeyRow));
}

function lastOfEachKey(closings: readonly Closing[]): Closing[] {
  const byKey = new Map(
    closings.map((closing) => {
      const { dedupeKey, plugin, command } = closing.job;
      return [targetOf(dedupeKey ?? '', plugin, command), closing];
    }),
  );
  return [...byKey.values()];
}

function toKeyRow({ job }: Closing): Row {
  return {
    dedupe_key: job.dedupeKey,
    plugin: job.plugin,
    command: job.command,
    job_id: job.id,
    ttl_ms: job.dedupeTtlMs ?? 0,
  };
}

const keyColumns = { ...dedupeColumns, ttl_ms: 'int' } as const;

const extendKey = defineRows({
  columns: keyColumns,
  sql: (r, d) => `insert into ${d.table('job_dedupe')}
    (dedupe_key, plugin, command, job_id, blocks_until)
    select ${r('dedupe_key')}, ${r('plugin')}, ${r('command')}, ${r('job_id')},
      ${d.nowPlus(r('ttl_ms'))} ${r.from}
    where true
    on conflict (dedupe_key, plugin, command) do update
      set job_id = excluded.job_id, blocks_until = excluded.blocks_until`,
});

const deleteKey = defineRows({
  columns: keyColumns,
  sql: (r, d) => `delete from ${d.table('job_dedupe')}
    where (dedupe_key, plugin, command, job_id) in (select ${r('dedupe_key')}, ${r('plugin')},
      ${r('command')}, ${r('job_id')} ${r.from})`,
});
