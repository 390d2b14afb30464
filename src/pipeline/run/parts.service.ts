import { limits } from '../../base/limits.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Branch, Run, Step } from './run.ts';

export interface RunParts {
  readonly branches: readonly Branch[];
  readonly steps: readonly Step[];
  readonly complete: boolean;
}

/** As much of a run as fits into one answer. */
export async function readParts(ledger: Ledger, run: Run): Promise<RunParts> {
  const page = { runId: run.id, limit: limits.pageRowsMax + 1 };
  const [branches, steps] = await Promise.all([
    ledger.runs.listBranches(page),
    ledger.runs.listSteps(page),
  ]);
  const complete = Math.max(branches.length, steps.length) <= limits.pageRowsMax;
  return complete ? { branches, steps, complete } : await readSome(ledger, run, branches, steps);
}

/**
 * Of a run that is too large, first of all what it did itself, without which nobody could tell where
 * the rest belongs, and what went wrong; then what came first.
 */
async function readSome(
  ledger: Ledger,
  { id: runId }: Run,
  branches: readonly Branch[],
  steps: readonly Step[],
): Promise<RunParts> {
  const page = { runId, limit: SOME };
  const [halted, own, failed] = await Promise.all([
    ledger.runs.listBranches({ ...page, status: 'halted' }),
    ledger.runs.listSteps({ ...page, branchId: runId }),
    ledger.runs.listSteps({ ...page, status: 'failed' }),
  ]);
  const root = branches.slice(0, 1);
  return {
    branches: firstOf([...root, ...halted, ...branches]),
    steps: firstOf([...own, ...failed, ...steps]),
    complete: false,
  };
}

/** Both together leave room for others. */
const SOME = Math.floor(limits.pageRowsMax / 3);

/** Each once, as many as fit, in the order in which they were recorded. */
function firstOf<T extends { readonly id: string }>(all: readonly T[]): T[] {
  const unique = [...new Map(all.map((one) => [one.id, one])).values()];
  return unique.slice(0, limits.pageRowsMax).toSorted((a, b) => (a.id < b.id ? -1 : 1));
}
