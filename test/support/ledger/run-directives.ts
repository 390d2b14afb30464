/** Directives about ended runs. */
import { decideStep } from '../../../src/pipeline/run/change.sql.ts';
import { reviveRun } from '../../../src/pipeline/run/revive.sql.ts';
import { makeId } from '../../../src/base/ids.ts';
import type { Directive } from '../../../src/directive/directive.ts';
import type { DirectiveWork } from '../../../src/ledger/directive-work.ts';
import type { Revival } from '../../../src/pipeline/run/types.ts';
import type { ClaimedJob } from '../../../src/job/types.ts';
import type { Ledger } from '../../../src/ledger/ledger.ts';
import { pausing } from './drafts.ts';

/** Requests a change of a run, even if it was requested before. */
export async function direct(
  ledger: Ledger,
  runId: string,
  work: DirectiveWork,
): Promise<Directive> {
  const named = { type: 'run.cancel', target: `run:${runId}`, sameness: 'each' } as const;
  return (await ledger.directives.create(pausing(named, work))).directive;
}

export function ask(
  ledger: Ledger,
  revivalOptions: Partial<Revival> & Pick<Revival, 'of'>,
): Promise<Directive> {
  const revival: Revival = {
    id: makeId(),
    firstJobId: makeId(),
    withContext: true,
    ...revivalOptions,
  };
  return direct(ledger, revivalOptions.of, (tx, actor) => reviveRun(tx, revival, actor));
}

/** Revives a run; returns the id of the new run. */
export async function revive(
  ledger: Ledger,
  of: string,
  more: Partial<Revival> = {},
): Promise<string> {
  const { status, error, result } = await ask(ledger, { of, ...more });
  if (status !== 'completed') throw new Error(error ?? status);
  return (JSON.parse(result ?? '{}') as { run_id: string }).run_id;
}

export function decide(
  ledger: Ledger,
  runId: string,
  step: string,
  approved: boolean,
  why?: string,
): Promise<Directive> {
  const decision = { runId, step, approved, ...(why === undefined ? {} : { why }) };
  return direct(ledger, runId, (tx, actor) => decideStep(tx, decision, actor));
}

/** Lists the sorted error codes of directives; a success is empty. */
export function codesOf(directives: readonly Directive[]): string[] {
  return directives.map(({ errorCode }) => errorCode ?? '').toSorted();
}

export function indexOf({ payload }: ClaimedJob): number {
  return Number((JSON.parse(payload) as { index?: number }).index);
}
