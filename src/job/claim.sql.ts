import { fromTimestamp, toTimestamp } from '../base/clock.ts';
import {
  defineRows,
  together,
  type Dialect,
  type Row,
  type Transaction,
} from '../ledger/dialect.ts';
import type { ClaimablePlugin, ClaimedJob, ClaimRequest } from './types.ts';
import {
  readClaimContext,
  toClaimedJob,
  countRunning,
  type RunningCounts,
} from './claim-context.sql.ts';
import { hasNoKey, makeKeyHeadReader } from './dependency.sql.ts';
import { int, intOrNull, text } from '../ledger/row.ts';
import { jobColumns } from './job.sql.ts';

/**
 * Claims up to `slots` ready jobs, oldest first, for a process that the ledger knows. It is the
 * last step of its transaction. Limits are counted from running rows inside the transaction, never
 * from a counter that could leak. Only the first jobs of the plugins below their cap are merged, so
 * the backlog of a capped plugin costs nothing.
 */
export async function claimJobs(tx: Transaction, request: ClaimRequest): Promise<ClaimedJob[]> {
  return await claimCandidates(tx, request, await readCandidates(tx, request));
}

/** The candidates of a claim, read while no other claim is in progress. */
export type ClaimCandidates = { readonly earlier: readonly ClaimedJob[] } | { readonly seen: Seen };

interface Seen {
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
  if (tx.again) {
    const earlier = await readBack(tx, request.token);
    if (earlier.length > 0) return { earlier };
  }
  if (request.slots <= 0 || request.plugins.length === 0) return { earlier: [] };
  const { lockClaims } = tx.dialect;
  if (lockClaims === undefined) return { seen: await lookOnce(tx, request, request.slots) };
  // A separate statement: the next one must take its snapshot after the lock is held.
  const [, seen] = await together(tx.run(lockClaims), lookOnce(tx, request, request.slots));
  return { seen };
}

async function lookOnce(tx: Transaction, request: ClaimRequest, slots: number): Promise<Seen> {
  // Both reads are sent together, before it is known what is running.
  const [running, heads] = await together(
    countRunning(tx, request.processId),
    readHeads(tx, request.plugins, slots, true),
  );
  return { running, heads };
}

/** Claims from the candidates that were read. */
export async function claimCandidates(
  tx: Transaction,
  request: ClaimRequest,
  view: ClaimCandidates,
): Promise<ClaimedJob[]> {
  if ('earlier' in view) return [...view.earlier];
  const claimed: ClaimedJob[] = [];
  for (let { seen } = view; ;) {
    const slots = request.slots - claimed.length;
    const round = await takeOnce(tx, request, slots, seen);
    claimed.push(...round.claimed);
    if (!round.passedOver || claimed.length === request.slots) break;
    seen = await lookOnce(tx, request, request.slots - claimed.length);
  }
  return claimed.sort((a, b) => a.seq - b.seq);
}

interface Round {
  readonly claimed: readonly ClaimedJob[];
  /** Some heads must wait for others of the same round, so younger jobs may take their slots. */
  readonly passedOver: boolean;
}

async function takeOnce(
  tx: Transaction,
  request: ClaimRequest,
  slots: number,
  { running, heads: all }: Seen,
): Promise<Round> {
  if (running === undefined) return { claimed: [], passedOver: false };
  const { plugins } = request;
  const suspects = running.suspects === 0;
  const free = suspects ? all : await readHeads(tx, plugins, slots, suspects);
  const heads = running.anyInLine ? await withKeyed(tx, free, request, { slots, running }) : free;
  const { chosen, passedOver } = choose(
    withinLimits(heads, plugins, running),
    Math.min(slots, placesLeft(request, running)),
  );
  if (chosen.length === 0) {
    tx.finish();
    return { claimed: [], passedOver: false };
  }
  const leases = new Map(plugins.map((plugin) => [plugin.name, plugin]));
  const nowMs = fromTimestamp(running.now);
  const rows = chosen.map((head) => ({
    seq: int(head, 'seq'),
    expires_at: toTimestamp(nowMs + leaseOf(leases, head)),
  }));
  const answers = together(
    tx.each(markTaken, rows, [
      request.token,
      request.processId,
      running.now,
      request.snapshotId ?? null,
    ]),
    readClaimContext(tx, chosen),
  );
  if (!passedOver) tx.finish();
  const [taken, companions] = await answers;
  const claimed = taken.map((row) => toClaimedJob(row, companions));
  return { claimed, passedOver: passedOver && claimed.length > 0 };
}

async function readHeads(
  tx: Transaction,
  plugins: readonly ClaimablePlugin[],
  slots: number,
  suspects: boolean,
): Promise<Row[]> {
  const caredFor = plugins.filter(({ init }) => init !== undefined);
  const open = tx.each(selectHeads, toAsked(openOf(plugins), slots, suspects));
  if (caredFor.length === 0) return await open;
  const [heads, care] = await together(
    open,
    tx.each(selectCare, toAsked(caredFor, slots, suspects)),
  );
  // Inits and health checks come first. If the plugin isn't held, both statements find them.
  const found = new Set(care.map((head) => head['seq']));
  return [...care, ...heads.filter((head) => !found.has(head['seq'] ?? null))];
}

/** Returns the plugins that don't wait for their init. */
function openOf(plugins: readonly ClaimablePlugin[]): ClaimablePlugin[] {
  return plugins.filter(({ init }) => init?.isHeld !== true);
}

function toAsked(plugins: readonly ClaimablePlugin[], slots: number, suspects: boolean): Row[] {
  return plugins.map(({ name, parallelism, init }) => ({
    plugin: name,
    heads: Math.min(parallelism, slots),
    suspects: suspects ? 1 : 0,
    fingerprint: init?.fingerprint ?? '',
  }));
}

/** Adds the first job of each dependency key, for plugins below their cap. */
async function withKeyed(
  tx: Transaction,
  heads: readonly Row[],
  { plugins }: ClaimRequest,
  { slots, running }: { readonly slots: number; readonly running: RunningCounts },
): Promise<readonly Row[]> {
  const hasPlace = ({ name, parallelism }: ClaimablePlugin): boolean =>
    parallelism > (running.byPlugin.get(name) ?? 0) && !running.disabled.has(name);
  const asked = toAsked(openOf(plugins).filter(hasPlace), slots, running.suspects === 0);
  return merge(heads, await readFirstInLine(tx, asked), slots, plugins);
}

/**
 * Merges heads with and without a dependency key, as many per plugin as if there were one list.
 * Inits and health checks stay first.
 */
function merge(
  heads: readonly Row[],
  keyed: readonly Row[],
  slots: number,
  plugins: readonly ClaimablePlugin[],
): Row[] {
  if (keyed.length === 0) return [...heads];
  const isCare = ({ care }: Row): boolean => care === 1;
  const left = new Map(
    plugins.map(({ name, parallelism }) => [name, Math.min(parallelism, slots)]),
  );
  const inOrder = [...heads.filter((head) => !isCare(head)), ...keyed].toSorted(bySeq);
  return [...heads.filter(isCare), ...inOrder.filter((head) => countDown(left, head))];
}

/** Returns as many heads of each plugin as may run beside its running jobs. */
function withinLimits(
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
function placesLeft({ workersMax }: ClaimRequest, { byPlugin }: RunningCounts): number {
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

const readFirstInLine = makeKeyHeadReader({ columns: headColumns, isFree: isFreeOfKey });

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
const selectCare = defineRows({
  columns: { plugin: 'text', heads: 'int', suspects: 'int', fingerprint: 'text' },
  sql: (r, d) =>
    `select q.* from ${r.lateral(
      `select ${headColumns}, 1 as care from ${d.table('job_queue')} h
      where h.plugin = ${r('plugin')} and h.status = 'queued' and h.next_retry_at is null
        and h.dependency_key is null and h.command in ('init', 'health') and h.suspect <= ${r('suspects')}
        and (h.init_for is null or h.init_for = ${r('fingerprint')}) and ${isFreeOfKey(d)}
      order by h.seq limit ${r('heads')} ${d.skipLocked}`,
    )}`,
});

/**
 * Chooses the oldest heads. Per dedupe key only the first one, and per process one suspect at a
 * time.
 */
function choose(
  heads: readonly Row[],
  slots: number,
): { readonly chosen: readonly Row[]; readonly passedOver: boolean } {
  const ordered = heads.toSorted(bySeq);
  const lastOf = new Map(ordered.map((head) => [head['plugin'], int(head, 'seq')]));
  const keys = new Set<string>();
  const chosen: Row[] = [];
  let suspectTaken = false;
  let passedOver = false;
  // A skipped head leaves a slot to a job of its plugin that isn't among these heads. A younger job
  // must not overtake that one, so it is left to the next round.
  let horizon = Infinity;
  for (const head of ordered) {
    if (chosen.length === slots || int(head, 'seq') > horizon) break;
    const isSuspect = head['suspect'] === 1;
    const target = head['dedupe_key'] === null ? undefined : targetOf(head);
    if ((isSuspect && suspectTaken) || (target !== undefined && keys.has(target))) {
      passedOver = true;
      horizon = Math.min(horizon, lastOf.get(head['plugin'] ?? null) ?? Infinity);
      continue;
    }
    if (target !== undefined) keys.add(target);
    suspectTaken ||= isSuspect;
    chosen.push(head);
  }
  return { chosen, passedOver };
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

const markTaken = defineRows({
  columns: { seq: 'int', expires_at: 'text' },
  key: 'seq',
  sql: (r, d) => `update ${d.table('job_queue')} set status = 'running',
      claim_token = ${r.common(0)}, claimed_by = ${r.common(1)}, started_at = ${r.common(2)},
      claim_expires_at = ${r('expires_at')}, config_snapshot_id = ${r.common(3)}
    ${r.from}
    where job_queue.seq ${r.isKey()} and job_queue.status = 'queued' and ${isNotCancelled(d)}
    returning ${jobColumns}`,
});

/** The jobs of a cancelled run stay in the queue until they are swept, and must not start. */
function isNotCancelled(d: Dialect): string {
  return `(job_queue.run_id is null or not exists (select 1 from ${d.table('pipeline_runs')} r
    where r.id = job_queue.run_id and r.status = 'cancelled'))`;
}

async function readBack(tx: Transaction, token: string): Promise<ClaimedJob[]> {
  const rows = await tx.run(
    `select ${jobColumns} from ${tx.dialect.table('job_queue')}
      where claim_token = ? and status = 'running'`,
    [token],
  );
  const companions = await readClaimContext(tx, rows);
  return rows.map((row) => toClaimedJob(row, companions)).sort((a, b) => a.seq - b.seq);
}
