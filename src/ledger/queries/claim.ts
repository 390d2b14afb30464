import { fromTimestamp } from '../../base/clock.ts';
import { defineRows, type Dialect, type Row, type Transaction } from '../dialect.ts';
import type { ClaimablePlugin, ClaimedJob, ClaimRequest } from '../ledger.ts';
import { int, jobColumns, text, textOrNull, toJob } from './row.ts';

/**
 * Takes up to `slots` ready jobs, oldest first. Limits are counted from running rows inside the
 * transaction, never from a counter that could leak. The heads of the plugins below their cap are
 * merged, so a capped plugin's backlog is not even walked past.
 */
export async function claim(tx: Transaction, request: ClaimRequest): Promise<ClaimedJob[]> {
  if (tx.again) {
    const earlier = await readBack(tx, request.token);
    if (earlier.length > 0) return earlier;
  }
  if (request.slots <= 0 || request.plugins.length === 0) return [];
  // A statement of its own: the next one must take its snapshot after the lock is held.
  if (tx.dialect.lockClaims !== undefined) await tx.run(tx.dialect.lockClaims);
  const running = await countRunning(tx, request.processId);
  const open = request.plugins
    .map((plugin) => ({ plugin, free: plugin.parallelism - (running.byPlugin.get(plugin.name) ?? 0) }))
    .filter(({ free }) => free > 0);
  if (open.length === 0) return [];
  const heads = await tx.each(
    selectHeads,
    open.map(({ plugin, free }) => ({
      plugin: plugin.name,
      heads: Math.min(free, request.slots),
    })),
  );
  const chosen = choose(heads, request.slots, running.suspects > 0);
  if (chosen.length === 0) return [];
  const leases = new Map(request.plugins.map((plugin) => [plugin.name, plugin]));
  const claimed = await tx.each(
    take,
    chosen.map((head) => ({ id: text(head, 'id'), lease_ms: leaseOf(leases, head) })),
    [request.token, request.processId],
  );
  return sortClaimed(claimed);
}

async function countRunning(
  tx: Transaction,
  processId: string,
): Promise<{ byPlugin: Map<string, number>; suspects: number }> {
  const rows = await tx.run(
    `select plugin, count(*) as running,
      sum(case when suspect = 1 and claimed_by = ? then 1 else 0 end) as suspects
      from ${tx.dialect.table('job_queue')} where status = 'running' group by plugin`,
    [processId],
  );
  return {
    byPlugin: new Map(rows.map((row) => [text(row, 'plugin'), int(row, 'running')])),
    suspects: rows.reduce((sum, row) => sum + int(row, 'suspects'), 0),
  };
}

const selectHeads = defineRows({
  columns: { plugin: 'text', heads: 'int' },
  sql: (r, d) => `select q.seq, q.id, q.plugin, q.command, q.dedupe_key, q.suspect from ${r.lateral(
    `select h.seq, h.id, h.plugin, h.command, h.dedupe_key, h.suspect
      from ${d.table('job_queue')} h
      where h.plugin = ${r('plugin')} and h.status = 'queued' and h.next_retry_at is null
        and (h.dedupe_key is null or not exists (
          select 1 from ${d.table('job_queue')} x where x.status = 'running'
            and x.dedupe_key = h.dedupe_key and x.plugin = h.plugin and x.command = h.command))
      order by h.seq limit ${r('heads')} ${d.skipLocked}`,
  )}`,
});

/** Oldest first; of one key only the first; of suspects one at a time in a process. */
function choose(heads: readonly Row[], slots: number, suspectRuns: boolean): Row[] {
  const keys = new Set<string>();
  let suspectTaken = suspectRuns;
  const chosen: Row[] = [];
  for (const head of heads.toSorted((a, b) => int(a, 'seq') - int(b, 'seq'))) {
    if (chosen.length === slots) break;
    if (head['suspect'] === 1 && suspectTaken) continue;
    const key = textOrNull(head, 'dedupe_key');
    if (key !== null) {
      const target = JSON.stringify([key, head['plugin'], head['command']]);
      if (keys.has(target)) continue;
      keys.add(target);
    }
    suspectTaken ||= head['suspect'] === 1;
    chosen.push(head);
  }
  return chosen;
}

function leaseOf(plugins: ReadonlyMap<string, ClaimablePlugin>, head: Row): number {
  const plugin = plugins.get(text(head, 'plugin'));
  return plugin?.leaseMs[text(head, 'command')] ?? plugin?.leaseDefaultMs ?? 0;
}

const take = defineRows({
  columns: { id: 'text', lease_ms: 'int' },
  sql: (r, d) => `update ${d.table('job_queue')} set status = 'running',
      claim_token = ${r.common(0)}, claimed_by = ${r.common(1)}, started_at = ${d.now},
      claim_expires_at = ${d.nowPlus(r('lease_ms'))}
    ${r.from}
    where job_queue.id = ${r('id')} and job_queue.status = 'queued'
    returning ${withCompanions(d)}`,
});

async function readBack(tx: Transaction, token: string): Promise<ClaimedJob[]> {
  const rows = await tx.run(
    `select ${withCompanions(tx.dialect)} from ${tx.dialect.table('job_queue')}
      where claim_token = ? and status = 'running'`,
    [token],
  );
  return sortClaimed(rows);
}

/** What an attempt needs besides its own row, read in the same statement. */
function withCompanions(d: Dialect): string {
  return `${jobColumns},
    coalesce((select s.state from ${d.table('plugin_state')} s
      where s.plugin_name = job_queue.plugin), '{}') as state,
    coalesce((select c.accumulated_json from ${d.table('event_context')} c
      where c.id = job_queue.event_context_id), '{}') as context`;
}

function sortClaimed(rows: readonly Row[]): ClaimedJob[] {
  return rows
    .map((row) => {
      const startedAt = text(row, 'started_at');
      return {
        ...toJob(row),
        claimToken: text(row, 'claim_token'),
        startedAt,
        state: text(row, 'state'),
        context: text(row, 'context'),
        queueMs: Math.max(0, fromTimestamp(startedAt) - fromTimestamp(text(row, 'ready_at'))),
      };
    })
    .sort((a, b) => a.seq - b.seq);
}
