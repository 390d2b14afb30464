import type { ErrorCode } from '../../base/errors.ts';
import type { Arrival } from './transition.ts';
import { describeAnswer, type Step } from './run.ts';
import type { Transaction } from '../../ledger/dialect.ts';
import type { Decision } from './types.ts';
import type { DirectiveEnd } from '../../directive/types.ts';
import { text } from '../../ledger/row.ts';
import { lockRun, noRun } from './change.sql.ts';
import { toStep, type RunRow, findGraph } from './load-branch.sql.ts';

/** As many as a message names. */
const NAMED_MAX = 5;

/** Somebody answers a step that asks: the answer is kept with the branch, and an advancer goes on. */
export async function decide(
  tx: Transaction,
  decision: Decision,
  actor: string,
): Promise<DirectiveEnd> {
  const { runId, step: name, approved, why } = decision;
  const run = await lockRun(tx, runId);
  if (run === undefined) return noRun(runId);
  const asked = await askedSteps(tx, runId, name);
  const waiting = asked.filter(({ status }) => status === 'waiting');
  const [step] = waiting;
  if (step === undefined) return await explainNone(tx, run, name, asked);
  if (waiting.length > 1) return ambiguous(name, waiting);
  const [clock] = await tx.run(`select ${tx.dialect.now} as now`);
  const at = text(clock ?? {}, 'now');
  const arrival: Arrival = { kind: 'decided', approved, by: actor, why: why ?? null, at };
  const moved = await tx.run(
    `update ${tx.dialect.table('run_branches')} set status = 'advancing', outcome = ?,
      due_at = ${tx.dialect.now}, deadline_at = null, claim_token = null, claimed_by = null
      where id = ? and status = 'waiting' returning id`,
    [JSON.stringify(arrival), step.branchId],
  );
  if (moved.length === 0) return fail('STEP_NOT_WAITING', `step ${step.node} is decided already`);
  const result = { run_id: runId, step: step.node, step_id: step.id, approved, by: actor, at };
  return { status: 'completed', result };
}

async function askedSteps(tx: Transaction, runId: string, name: string): Promise<Step[]> {
  const rows = await tx.run(
    `select * from ${tx.dialect.table('run_steps')}
      where run_id = ? and kind = 'approve' and (node = ? or id = ?)
      order by case when status = 'waiting' then 0 else 1 end, id limit ?`,
    [runId, name, name, NAMED_MAX + 1],
  );
  return rows.map(toStep);
}

async function explainNone(
  tx: Transaction,
  run: RunRow,
  name: string,
  asked: readonly Step[],
): Promise<DirectiveEnd> {
  const last = asked.at(-1);
  if (last !== undefined) {
    return fail(
      'STEP_NOT_WAITING',
      `step ${last.node} does not wait any more: ${describeAnswer(last)}`,
    );
  }
  const graph = await findGraph(tx, run.definitionHash);
  const node = graph?.nodes[name];
  if (node === undefined) return fail('STEP_NOT_FOUND', `run ${run.id} has no step ${name}`);
  if (node.kind !== 'approve') {
    return fail('STEP_NOT_WAITING', `step ${name} waits for nobody: it is a ${node.kind}`);
  }
  return fail('STEP_NOT_WAITING', `run ${run.id}, which is ${run.status}, did not come to ${name}`);
}

function ambiguous(name: string, waiting: readonly Step[]): DirectiveEnd {
  const ids = waiting.slice(0, NAMED_MAX).map(({ id }) => id);
  const more = waiting.length > NAMED_MAX ? ', …' : '';
  return fail('STEP_AMBIGUOUS', `step ${name} waits on several branches: ${ids.join(', ')}${more}`);
}

function fail(code: ErrorCode, error: string): DirectiveEnd {
  return { status: 'failed', code, error };
}
