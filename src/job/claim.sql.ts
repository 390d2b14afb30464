import { fromTimestamp, toTimestamp } from '../base/clock.ts';
import {
  defineRows,
  awaitBoth,
  type Dialect,
  type Row,
  type Transaction,
} from '../ledger/dialect.ts';
import { int, intOrNull, text } from '../ledger/row.ts';
import {
  readClaimContext,
  toClaimedJob,
  countRunning,
  type RunningCounts,
} from './claim-context.sql.ts';
import { hasNoKey, makeKeyHeadReader } from './dependency.sql.ts';
import { jobColumns } from './job.sql.ts';
import type { ClaimablePlugin, ClaimedJob, ClaimRequest } from './types.ts';

/**
 * Claims up to `slots` ready jobs, oldest first, for a process that the ledger knows. It is the last
 * step of its transaction. Limits are counted from running rows inside the transaction, never from a
 * counter that could leak. Only the first ready jobs of each plugin, its heads, are read. So a long
 * queue costs nothing.
 */
export async function claimJobs(tx: Transaction, request: ClaimRequest): Promise<ClaimedJob[]> {
  return await claimCandidates(tx, request, await readCandidates(tx, request));
}

/**
 * The candidates of a claim, read while no other claim is in progress. `earlier` are the jobs that an
 * earlier try of the same claim got, whose response was lost.
 */
export type ClaimCandidates =
  | { readonly earlier: readonly ClaimedJob[] }
  | { readonly view: ClaimView };

interface ClaimView {
  /**
   * Undefined if nothing can be claimed: the ledger is paused, or it doesn't know the process. A
   * process that was reaped must record a heartbeat first.
   */
  readonly running: RunningCounts | undefined;
  readonly heads: readonly Row[];
}

/**
 * Reads the candidates of a claim. It is a function of its own, so that a settlement can send it
 * together with its own statements.
 */
export async function readCandidates(
  tx: Transaction,
  request: ClaimRequest,
): Promise<ClaimCandidates> {
  if (tx.isRetry) {
    const earlier = await readClaim(tx, request.token);
    if (earlier.length > 0) return { earlier };
  }
  if (request.slots <= 0 || request.plugins.length === 0) return { earlier: [] };
  const { lockClaims } = tx.dialect;
  if (lockClaims === undefined) return { view: await readView(tx, request, request.slots) };
  // A separate statement: the next one must take its snapshot after the lock is held.
  const [, view] = await awaitBoth(tx.run(lockClaims), readView(tx, request, request.slots));
  return { view };
}

async function readView(tx: Transaction, request: ClaimRequest, slots: number): Promise<ClaimView> {
  // Both reads are sent together, before it is known what is running.
  const [running, heads] = await awaitBoth(
    countRunning(tx, request.processId),
    readHeads(tx, request.plugins, slots, true),
  );
  return { running, heads };
}

/** Claims from the candidates that were read. */
export async function claimCandidates(
  tx: Transaction,
  request: ClaimRequest,
  candidates: ClaimCandidates,
): Promise<ClaimedJob[]> {
  if ('earlier' in candidates) return [...candidates.earlier];
  const claimed: ClaimedJob[] = [];
  for (let { view } = candidates; ;) {
    const slots = request.slots - claimed.length;
    const round = await claimRound(tx, request, slots, view);
    claimed.push(...round.claimed);
    if (!round.hasSkipped || claimed.length === request.slots) break;
    view = await readView(tx, request, request.slots - claimed.length);
  }
  return claimed.sort((a, b) => a.seq - b.seq);
}

interface ClaimRound {
  readonly claimed: readonly ClaimedJob[];
  /** Some heads must wait for others of the same round, so another round may fill their slots. */
  readonly hasSkipped: boolean;
}

async function claimRound(
  tx: Transaction,
  request: ClaimRequest,
  slots: number,
  { running, heads: all }: ClaimView,
): Promise<ClaimRound> {
  if (running === undefined) return { claimed: [], hasSkipped: false };
  const { plugins } = request;
  // The view was read before it was known that a suspect runs here.
  const allowsSuspects = running.suspects === 0;
  const free = allowsSuspects ? all : await readHeads(tx, plugins, slots, allowsSuspects);
  const heads = running.hasKeyedJob ? await addKeyed(tx, free, request, { slots, running }) : free;
  const { chosen, hasSkipped } = chooseHeads(
    limitHeads(heads, plugins, running),
    Math.min(slots, countSlotsLeft(request, running)),
  );
  if (chosen.length === 0) {
    tx.finish();
    return { claimed: [], hasSkipped: false };
  }
  const leases = new Map(plugins.map((plugin) => [plugin.name, plugin]));
  const nowMs = fromTimestamp(running.now);
  const rows = chosen.map((head) => ({
    seq: int(head, 'seq'),
    expires_at: toTimestamp(nowMs + leaseOf(leases, head)),
  }));
  const claiming = awaitBoth(
    tx.each(updateClaimed, rows, [
      request.token,
      request.processId,
      running.now,
      request.snapshotId ?? null,
    ]),
    readClaimContext(tx, chosen),
  );
  if (!hasSkipped) tx.finish();
  const [updated, context] = await claiming;
  const claimed = updated.map((row) => toClaimedJob(row, context));
  return { claimed, hasSkipped: hasSkipped && claimed.length > 0 };
}

async function readHeads(
  tx: Transaction,
  plugins: readonly ClaimablePlugin[],
  slots: number,
  allowsSuspects: boolean,
): Promise<Row[]> {
  const withInit = plugins.filter(({ init }) => init !== undefined);
  const ready = tx.each(selectHeads, toHeadRows(filterReady(plugins), slots, allowsSuspects));
  if (withInit.length === 0) return await ready;
  const [heads, checks] = await awaitBoth(
    ready,
    tx.each(selectChecks, toHeadRows(withInit, slots, allowsSuspects)),
  );
  // Inits and health checks come first. If the plugin isn't held, both statements find them.
  const found = new Set(checks.map((head) => head['seq']));
  return [...checks, ...heads.filter((head) => !found.has(head['seq'] ?? null))];
}

/** Returns the plugins that don't wait for their init. */
function filterReady(plugins: readonly ClaimablePlugin[]): ClaimablePlugin[] {
  return plugins.filter(({ init }) => init?.isHeld !== true);
}

function toHeadRows(
  plugins: readonly ClaimablePlugin[],
  slots: number,
  allowsSuspects: boolean,
): Row[] {
  return plugins.map(({ name, parallelism, init }) => ({
    plugin: name,
    heads: Math.min(parallelism, slots),
    suspects: allowsSuspects ? 1 : 0,
    fingerprint: init?.fingerprint ?? '',
  }));
}

/** Adds the first job of each dependency key, for plugins below their cap. */
async function addKeyed(
  tx: Transaction,
  heads: readonly Row[],
  { plugins }: ClaimRequest,
  { slots, running }: { readonly slots: number; readonly running: RunningCounts },
): Promise<readonly Row[]> {
  const hasSlot = ({ name, parallelism }: ClaimablePlugin): boolean =>
    parallelism > (running.byPlugin.get(name) ?? 0) && !running.disabled.has(name);
  const wanted = filterReady(plugins).filter(hasSlot);
  const keyed = await readKeyHeads(tx, toHeadRows(wanted, slots, running.suspects === 0));
  return mergeHeads(heads, keyed, slots, plugins);
}

/**
 * Merges heads with and without a dependency key, as many per plugin as if there were one list.
 * Inits and health checks stay first.
 */
function mergeHeads(
  heads: readonly Row[],
  keyed: readonly Row[],
  slots: number,
  plugins: readonly ClaimablePlugin[],
): Row[] {
  if (keyed.length === 0) return [...heads];
  const isCheck = ({ is_check: check }: Row): boolean => check === 1;
  const left = new Map(
    plugins.map(({ name, parallelism }) => [name, Math.min(parallelism, slots)]),
  );
  const inOrder = [...heads.filter((head) => !isCheck(head)), ...keyed].toSorted(bySeq);
  return [...heads.filter(isCheck), ...inOrder.filter((head) => countDown(left, head))];
}

/** Returns as many heads of each plugin as may run beside its running jobs. */
function limitHeads(
  heads: readonly Row[],
  plugins: readonly ClaimablePlugin[],
  running: RunningCounts,
): Row[] {
  const enabled = plugins.filter(({ name }) => !running.disabled.has(name));
  const free = new Map(
    enabled.map(({ name, parallelism }) => [name, parallelism - (running.byPlugin.get(name) ?? 0)]),
  );
  return heads.filter((head) => countDown(free, head));
}

/** Takes one of the plugin's free slots. Returns whether there was one. */
function countDown(left: Map<string, number>, head: Row): boolean {
  const plugin = text(head, 'plugin');
  const count = left.get(plugin) ?? 0;
  left.set(plugin, count - 1);
  return count > 0;
}

function bySeq(one: Row, two: Row): number {
  return int(one, 'seq') - int(two, 'seq');
}

/** Returns how many more jobs the whole ledger may run. */
function countSlotsLeft({ workersMax }: ClaimRequest, { byPlugin }: RunningCounts): number {
  if (workersMax === undefined) return Infinity;
  const running = [...byPlugin.values()].reduce((sum, count) => sum + count, 0);
  return Math.max(0, workersMax - running);
}

/** Writes the condition that no job with the same dedupe key and target is running. */
function isFreeOfKey(d: Dialect): string {
  return `(h.dedupe_key is null or not exists (
    select 1 from ${d.table('job_queue')} x where x.status = 'running'
      and x.dedupe_key = h.dedupe_key and x.plugin = h.plugin and x.command = h.command))`;
}

const headColumns =
  'h.seq, h.plugin, h.command, h.dedupe_key, h.suspect, h.event_context_id, h.timeout_ms';

const readKeyHeads = makeKeyHeadReader({ columns: headColumns, isFree: isFreeOfKey });

const selectHeads = defineRows({
  columns: { plugin: 'text', heads: 'int', suspects: 'int' },
  sql: (r, d) =>
    `select q.* from ${r.lateral(
      `select ${headColumns} from ${d.table('job_queue')} h
      where h.plugin = ${r('plugin')} and h.status = 'queued' and h.next_retry_at is null
        and ${hasNoKey('h')} and h.suspect <= ${r('suspects')} and h.init_for is null and ${isFreeOfKey(d)}
      order by h.seq limit ${r('heads')} ${d.skipLocked}`,
    )}`,
});

/**
 * Selects inits for the current configuration, and health checks. It repeats the condition of their
 * index, so that the index is used.
 */
const selectChecks = defineRows({
  columns: { plugin: 'text', heads: 'int', suspects: 'int', fingerprint: 'text' },
  sql: (r, d) =>
    `select q.* from ${r.lateral(
      `select ${headColumns}, 1 as is_check from ${d.table('job_queue')} h
      where h.plugin = ${r('plugin')} and h.status = 'queued' and h.next_retry_at is null
        and h.dependency_key is null and h.command in ('init', 'health') and h.suspect <= ${r('suspects')}
        and (h.init_for is null or h.init_for = ${r('fingerprint')}) and ${isFreeOfKey(d)}
      order by h.seq limit ${r('heads')} ${d.skipLocked}`,
    )}`,
});

/** Chooses the oldest heads: only the first one per dedupe key, and one suspect per process. */
function chooseHeads(
  heads: readonly Row[],
  slots: number,
): { readonly chosen: readonly Row[]; readonly hasSkipped: boolean } {
  const ordered = heads.toSorted(bySeq);
  const lastOf = new Map(ordered.map((head) => [head['plugin'], int(head, 'seq')]));
  const keys = new Set<string>();
  const chosen: Row[] = [];
  let hasSuspect = false;
  let hasSkipped = false;
  // A skipped head leaves a slot to a job of its plugin that isn't among these heads. A younger job
  // must not overtake that one, so it is left to the next round.
  let horizon = Infinity;
  for (const head of ordered) {
    if (chosen.length === slots || int(head, 'seq') > horizon) break;
    const isSuspect = head['suspect'] === 1;
    const target = head['dedupe_key'] === null ? undefined : targetOf(head);
    if ((isSuspect && hasSuspect) || (target !== undefined && keys.has(target))) {
      hasSkipped = true;
      horizon = Math.min(horizon, lastOf.get(head['plugin'] ?? null) ?? Infinity);
      continue;
    }
    if (target !== undefined) keys.add(target);
    hasSuspect ||= isSuspect;
    chosen.push(head);
  }
  return { chosen, hasSkipped };
}

/** Returns the key of which only one job may run at a time. */
function targetOf(head: Row): string {
  return JSON.stringify([head['dedupe_key'], head['plugin'], head['command']]);
}

function leaseOf(plugins: ReadonlyMap<string, ClaimablePlugin>, head: Row): number {
  const plugin = plugins.get(text(head, 'plugin'));
  if (plugin === undefined) return 0;
  const timeoutMs = intOrNull(head, 'timeout_ms');
  if (timeoutMs !== null && plugin.leaseSlackMs !== undefined) {
    return timeoutMs + plugin.leaseSlackMs;
  }
  const command = text(head, 'command');
  const own = Object.hasOwn(plugin.leaseMs, command) ? plugin.leaseMs[command] : undefined;
  return own ?? plugin.leaseDefaultMs;
}

const updateClaimed = defineRows({
  columns: { seq: 'int', expires_at: 'text' },
  key: 'seq',
  sql: (r, d) => `update ${d.table('job_queue')} set status = 'running',
      claim_token = ${r.common(0)}, claimed_by = ${r.common(1)}, started_at = ${r.common(2)},
      claim_expires_at = ${r('expires_at')}, config_snapshot_id = ${r.common(3)}
    ${r.from}
    where job_queue.seq ${r.isKey()} and job_queue.status = 'queued' and ${isNotCancelled(d)}
    returning ${jobColumns}`,
});

/** Writes the condition that the run isn't cancelled. Its jobs stay queued until a sweep ends them. */
function isNotCancelled(d: Dialect): string {
  return `(job_queue.run_id is null or not exists (select 1 from ${d.table('pipeline_runs')} r
    where r.id = job_queue.run_id and r.status = 'cancelled'))`;
}

/** Reads the jobs that an earlier try of this claim got. */
async function readClaim(tx: Transaction, token: string): Promise<ClaimedJob[]> {
  const rows = await tx.run(
    `select ${jobColumns} from ${tx.dialect.table('job_queue')}
      where claim_token = ? and status = 'running'`,
    [token],
  );
  const context = await readClaimContext(tx, rows);
  return rows.map((row) => toClaimedJob(row, context)).sort((a, b) => a.seq - b.seq);
}
