import { limits } from '../../base/limits.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Branch, Run, Step } from './run.ts';
import type { Timestamp } from '../../base/clock.ts';
import { parseStoredJson } from '../../base/json.ts';
import { payloadKeyOf } from '../language/graph.ts';

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

interface Parts {
  readonly branches: readonly Branch[];
  readonly steps: readonly Step[];
}

/**
 * Finds when blocks were opened. A block's step is written when the block ends, so its start is the
 * creation of its first branch.
 */
export function findOpenings(parts: Parts): Map<string, Timestamp> {
  const openings = new Map<string, Timestamp>();
  for (const { step, block } of pairBlocks(parts)) {
    const [first] = block.map(({ createdAt }) => createdAt).toSorted();
    if (step !== undefined && first !== undefined) openings.set(step.id, first);
  }
  return openings;
}

/** Maps each branch to the step whose block it belongs to. */
export function findOwners(parts: Parts): Map<string, string> {
  const owners = new Map<string, string>();
  for (const { node, block } of pairBlocks(parts)) {
    for (const { id } of block) owners.set(id, node);
  }
  return owners;
}

interface Pair {
  readonly node: string;
  /** Undefined while the block is open. */
  readonly step: Step | undefined;
  readonly block: readonly Branch[];
}

function pairBlocks({ branches, steps }: Parts): Pair[] {
  const childrenOf = Map.groupBy(branches, ({ parentId }) => parentId);
  const stepsOf = Map.groupBy(steps, ({ branchId }) => branchId);
  return branches.flatMap(({ id, node }) => {
    const taken = (stepsOf.get(id) ?? []).filter(isBlock);
    return blocksOf(childrenOf.get(id) ?? []).map((block, index) => {
      const step = taken[index];
      return { node: step?.node ?? node, step, block };
    });
  });
}

/** Groups the branches by block, in the order in which the blocks were opened. */
export function blocksOf(children: readonly Branch[]): Branch[][] {
  const groups = Map.groupBy(children, ({ parentMoves }) => parentMoves ?? 0);
  return [...groups]
    .sort(([a], [b]) => a - b)
    .map(([, block]) => block.toSorted((a, b) => a.index - b.index));
}

/** True if the step had branches. An empty list has none. */
export function isBlock({ kind, status, node, output }: Step): boolean {
  if (status === 'skipped') return false;
  if (kind !== 'foreach') return kind === 'split' || kind === 'events';
  const own = parseStoredJson(output) as Readonly<Record<string, unknown>> | null;
  const joined = own?.[payloadKeyOf(node)];
  return !Array.isArray(joined) || joined.length > 0;
}
