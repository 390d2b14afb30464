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
  readCompanions,
  toClaimed,
  countRunning,
  type RunningCounts,
} from './claim-context.sql.ts';
import { hasNoKey, makeLineReader } from './dependency.sql.ts';
import { int, intOrNull, text } from '../ledger/row.ts';
import { jobColumns } from './job.sql.ts';

/**
 * Takes up to `slots` ready jobs, oldest first, for a process that the ledger knows; the last thing
 * that its transaction does. Limits are counted from running rows inside the transaction, never from
 * a counter that could leak. The heads of the plugins below their cap are merged, so a capped
 * plugin's backlog is not even walked past.
 */
export async function claim(tx: Transaction, request: ClaimRequest): Promise<ClaimedJob[]> {
  return await take(tx, request, await look(tx, request));
}

/** What a claim chooses from, seen while no other claim is under way. */
export type View = { readonly earlier: readonly ClaimedJob[] } | { readonly seen: Seen };

interface Seen {
  /**
   * Undefined when nothing may be claimed: the ledger is paused, or it doesn't know the process,
   * which was reaped and must record a heartbeat first.
   */
  readonly running: RunningCounts | undefined;
  readonly heads: readonly Row[];
}

/** The first half of a claim, for those who have more to ask before they know what it will find. */
export async function look(tx: Transaction, request: ClaimRequest): Promise<View> {
  if (tx.again) {
    const earlier = await readBack(tx, request.token);
    if (earlier.length > 0) return { earlier };
  }
  if (request.slots <= 0 || request.plugins.length === 0) return { earlier: [] };
  const { lockClaims } = tx.dialect;
  if (lockClaims === undefined) return { seen: await lookOnce(tx, request, request.slots) };
  // A statement of its own: the next one must take its snapshot after the lock is held.
  const [, seen] = await together(tx.run(lockClaims), lookOnce(tx, request, request.slots));
  return { seen };
}

async function lookOnce(tx: Transaction, request: ClaimRequest, slots: number): Promise<Seen> {
  // Asked for before it is known what runs, so as to get both answers at once.
  const [running, heads] = await together(
    countRunning(tx, request.processId),
    readHeads(tx, request.plugins, slots, true),
  );
  return { running, heads };
}

/** The second half. */
export async function take(
  tx: Transaction,
  request: ClaimRequest,
  view: View,
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
  /** Heads had to wait for others of the same round, so younger jobs may have their places. */
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
    readCompanions(tx, chosen),
  );
  if (!passedOver) tx.finish();
  const [taken, companions] = await answers;
  const claimed = taken.map((row) => toClaimed(row, companions));
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
  // What a plugin needs to be well comes first; where nothing is held back, both find it.
  const found = new Set(care.map((head) => head['seq']));
  return [...care, ...heads.filter((head) => !found.has(head['seq'] ?? null))];
}

/** Those that are not held back until they are well. */
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

/** Beside those heads, the first in the line of each key; of plugins that are full nobody is asked for. */
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

/** As many of each plugin as if there had been one line of them; what it needs to be well stays first. */
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

/** As many heads of each plugin as may run beside those that do. */
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

/** Whether its plugin has one left; if so, it is taken. */
function countDown(left: Map<string, number>, head: Row): boolean {
  const plugin = text(head, 'plugin');
  const count = left.get(plugin) ?? 0;
  left.set(plugin, count - 1);
  return count > 0;
}

function bySeq(one: Row, two: Row): number {
  return int(one, 'seq') - int(two, 'seq');
}

/** Of what the whole ledger may run at once. */
function placesLeft({ workersMax }: ClaimRequest, { byPlugin }: RunningCounts): number {
  if (workersMax === undefined) return Infinity;
  const running = [...byPlugin.values()].reduce((sum, count) => sum + count, 0);
  return Math.max(0, workersMax - running);
}

/** Of one key, nothing is claimed while another runs. */
function isFreeOfKey(d: Dialect): string {
  return `(h.dedupe_key is null or not exists (
    select 1 from ${d.table('job_queue')} x where x.status = 'running'
      and x.dedupe_key = h.dedupe_key and x.plugin = h.plugin and x.command = h.command))`;
}

const headColumns =
  'h.seq, h.plugin, h.command, h.dedupe_key, h.suspect, h.event_context_id, h.timeout_ms';

const readFirstInLine = makeLineReader({ columns: headColumns, isFree: isFreeOfKey });

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

/** Inits for this very configuration, and checks; the words of their index, so that it is used. */
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

/** Oldest first; of one key only the first; of suspects one at a time in a process. */
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
  // Whoever is passed over makes room for one of its plugin that is not among these heads; nobody
  // who came after that one may go before it, so they are left to the next round.
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

/** What only one may run of at a time. */
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

/** What is left of a cancelled run stands in the queue until it is swept, and does not start. */
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
  const companions = await readCompanions(tx, rows);
  return rows.map((row) => toClaimed(row, companions)).sort((a, b) => a.seq - b.seq);
}
