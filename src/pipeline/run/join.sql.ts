import { limits } from '../../base/limits.ts';
import type { Arrival, BlockKind } from './transition.ts';
import type { HaltReason } from './run.ts';
import { defineRows, type Row, type Session, type Transaction } from '../../ledger/dialect.ts';
import { flush } from './write-branch.sql.ts';
import type { Effects } from './changes.ts';
import { letGo } from './block-concurrency.sql.ts';
import { BEGUN_MAX, beginChildren, leftToAdvancer, moveOn, roomOf, type Opening } from './apply.ts';
import { int, intOrNull, text, textOrNull } from '../../ledger/row.ts';
import { announceQuestions, closeRuns } from './end.sql.ts';
import {
  toBranch,
  toRun,
  toStands,
  type BranchRow,
  type RunRow,
  type Stand,
} from './load-branch.sql.ts';
import { parseJson } from '../../base/parse-json.ts';

/**
 * Writes what was collected, and goes up from the branches that ended: each parent counts, and
 * whoever ends the last of its branches moves it on in the same transaction.
 */
export async function climb(tx: Transaction, effects: Effects): Promise<void> {
  for (let level = takeLevel(effects); level.length > 0; level = takeLevel(effects)) {
    flush(tx, effects);
    const counted = await tx.each(countEnded, level);
    const ids = counted.filter(isToBeMoved).map((row) => text(row, 'id'));
    for (const parent of await readStands(tx, ids)) await moveParent(tx, effects, parent);
  }
  await announceQuestions(tx, effects);
  await closeRuns(tx, effects);
  flush(tx, effects);
}

function takeLevel(effects: Effects): Row[] {
  return effects.takeEndedOf().map(([id, { count, halted }]) => ({ id, count, halted }));
}

/** A parent that is not open any more was cancelled, and nobody waits for its branches. */
const countEnded = defineRows({
  columns: { id: 'text', count: 'int', halted: 'int' },
  sql: (r, d) => `update ${d.table('run_branches')} set
      pending = run_branches.pending - ${r('count')}, halted = run_branches.halted + ${r('halted')}
    ${r.from}
    where run_branches.id = ${r('id')} and run_branches.completed_at is null
    returning run_branches.id, run_branches.pending, run_branches.width, run_branches.cursor,
      run_branches.concurrency, run_branches.outcome, run_branches.status`,
});

function isToBeMoved(row: Row): boolean {
  if (int(row, 'pending') === 0) return true;
  const isLimited = intOrNull(row, 'concurrency') !== null;
  const hasMore = int(row, 'cursor') < int(row, 'width') || row['outcome'] !== null;
  return isLimited && row['status'] === 'waiting' && hasMore;
}

async function moveParent(tx: Transaction, effects: Effects, parent: Stand): Promise<void> {
  const { branch } = parent;
  const failing = failingOf(branch.outcome);
  if (failing !== undefined) {
    const before = { ...parent, branch: { ...branch, outcome: failing.left } };
    if (branch.pending === 0) moveOn(effects, before, { arrival: failing.arrival });
  } else if (branch.pending > 0) {
    await goOn(tx, effects, parent);
  } else if (branch.width > limits.inlineFanoutMax && branch.halted === 0) {
    effects.put(leftToAdvancer(branch, { kind: 'join' }), false);
  } else {
    moveOn(effects, parent, { arrival: await readJoin(tx, branch) });
  }
}

/** First those that were begun before and are held back, then new ones. */
async function goOn(tx: Transaction, effects: Effects, parent: Stand): Promise<void> {
  const { branch } = parent;
  const outcome = await letGo(tx, branch);
  if (outcome !== branch.outcome) {
    effects.put({ ...branch, outcome, due: undefined, wasPlain: false }, false);
    effects.leaveToAdvancer();
  }
  if (outcome === null) beginNext(effects, { ...parent, branch: { ...branch, outcome } });
}

/** Those that waited for others to end; unless that would be too much at once. */
function beginNext(effects: Effects, parent: Stand): void {
  const branch = { ...parent.branch, due: undefined, wasPlain: false };
  const to = roomOf(branch);
  if (to <= branch.cursor) return;
  if (effects.begunCount + to - branch.cursor > BEGUN_MAX) {
    const outcome: Opening = { kind: 'open' };
    effects.put(leftToAdvancer(branch, outcome), false);
    return;
  }
  beginChildren(effects, { ...parent, branch, isNew: false }, { events: undefined, to });
}

/** What the end of all branches of a block brings their parent. */
export async function readJoin(session: Session, branch: BranchRow): Promise<Arrival> {
  if (branch.halted > 0) return await readFirstHalt(session, branch);
  const block = branch.block ?? 'split';
  const outputs: string[] = [];
  let chars = 0;
  for await (const slice of outputSlices(session, branch)) {
    for (const output of slice) chars += output.length;
    if (chars > limits.runOutputBytesMax) return tooLarge(block);
    // Of a list nobody needs each by itself, and few long texts are put together sooner than many.
    if (block === 'split') outputs.push(...slice);
    else outputs.push(slice.join(','));
  }
  return { kind: 'joined', block, outputs };
}

function tooLarge(block: BlockKind): Arrival {
  const error = `its outputs have more than ${limits.runOutputBytesMax} bytes together`;
  return { kind: 'failed', reason: 'invalid_transition', error, block };
}

/** What has ended never changes, so it may be read slice by slice, in a transaction or outside. */
async function* outputSlices(
  session: Session,
  { id, moves, width }: BranchRow,
): AsyncGenerator<string[]> {
  let after = `${id}.${moves}.`;
  for (let read = 0; read < width;) {
    const rows = await session.run(
      `select id, output from ${session.dialect.table('run_branches')}
        where id > ? and id < ? and parent_id = ? order by id limit ${limits.advanceBatchMax}`,
      [after, `${id}.${moves}.~`, id],
    );
    const last = rows.at(-1);
    if (last === undefined) throw new Error(`branches of ${id} are missing`);
    read += rows.length;
    after = text(last, 'id');
    yield rows.map((row) => text(row, 'output'));
    if (read < width) await new Promise((turn) => setImmediate(turn));
  }
}

async function readFirstHalt(session: Session, branch: BranchRow): Promise<Arrival> {
  const { id, moves, block } = branch;
  const [row] = await session.run(
    `select halt_reason, halt_message from ${session.dialect.table('run_branches')}
      where id > ? and id < ? and parent_id = ? and status in ('halted', 'cancelled')
      order by id limit 1`,
    [`${id}.${moves}.`, `${id}.${moves}.~`, id],
  );
  return {
    kind: 'failed',
    reason: (textOrNull(row ?? {}, 'halt_reason') ?? 'cancelled') as HaltReason,
    error: textOrNull(row ?? {}, 'halt_message') ?? 'one of its branches was cancelled',
    ...(block === null ? {} : { block }),
  };
}

/** Branches that are locked already, with their runs. */
async function readStands(tx: Transaction, ids: readonly string[]): Promise<Stand[]> {
  if (ids.length === 0) return [];
  const rows = await tx.each(
    selectBranches,
    ids.map((id) => ({ id })),
  );
  const branches = rows.map(toBranch);
  const runs = await readRuns(tx, [...new Set(branches.map(({ runId }) => runId))]);
  return await toStands(
    tx,
    branches.flatMap((branch) => {
      const run = runs.get(branch.runId);
      return run === undefined ? [] : { run, branch };
    }),
  );
}

export async function readRuns(
  session: Session,
  ids: readonly string[],
): Promise<Map<string, RunRow>> {
  const rows = await session.each(
    selectRuns,
    ids.map((id) => ({ id })),
  );
  return new Map(rows.map((row) => [text(row, 'id'), toRun(row)]));
}

const selectRuns = defineRows({
  columns: { id: 'text' },
  sql: (r, d) =>
    `select q.* from ${r.lateral(
      `select p.* from ${d.table('pipeline_runs')} p where p.id = ${r('id')}`,
    )}`,
});

/** Their payloads are where they are, or kept apart. */
const selectBranches = defineRows({
  columns: { id: 'text' },
  key: 'id',
  sql: (r, d) =>
    `select q.*, coalesce((select p.payload from ${d.table('run_payloads')} p
        where p.id = q.payload_ref), q.payload) as payload
      from ${r.lateral(`select b.* from ${d.table('run_branches')} b where b.id ${r.isKey()}`)}`,
});

type Failed = Extract<Arrival, { readonly kind: 'failed' }>;

/** Kept by a branch that cannot go on, until those of its block that were begun have ended. */
interface Failing {
  readonly kind: 'failing';
  readonly arrival: Failed;
  /** What was left to be done with it. */
  readonly left: string | null;
}

/** Nothing more of its block is begun; when the last that was begun has ended, it halts. */
export function failBranch(effects: Effects, stand: Stand, arrival: Failed): void {
  const { branch } = stand;
  const underWay = branch.block === null ? 0 : branch.pending - (branch.width - branch.cursor);
  if (underWay === 0) {
    moveOn(effects, stand, { arrival });
    return;
  }
  const failing: Failing = { kind: 'failing', arrival, left: branch.outcome };
  const waiting = {
    ...branch,
    status: 'waiting',
    pending: underWay,
    outcome: JSON.stringify(failing),
    due: undefined,
    wasPlain: false,
    claimToken: null,
    claimedBy: null,
    tries: 0,
    crashes: 0,
  } as const;
  effects.put(waiting, false);
}

export function failingOf(outcome: string | null): Failing | undefined {
  return outcome?.startsWith('{"kind":"failing"') === true
    ? (parseJson(outcome) as Failing)
    : undefined;
}
