import { limits } from '../../base/limits.ts';
import type { Run } from '../../pipeline/run.ts';
import type { Check } from '../check.ts';
import type { LiveFinding } from '../finding.ts';

/** Finds pipelines with halted runs, one finding for each pipeline. */
export const findHaltedRuns: Check = async ({ ledger }) => {
  const runs = await ledger.runs({ status: ['halted'], limit: limits.pageRowsMax });
  return [...Map.groupBy(runs, ({ pipeline }) => pipeline)].map(([pipeline, halted]) =>
    describeHalted(pipeline, halted),
  );
};

function describeHalted(pipeline: string, halted: readonly Run[]): LiveFinding {
  const [newest] = halted;
  const id = newest?.id ?? '';
  const count = halted.length;
  const reason = newest?.haltMessage ?? newest?.haltReason ?? 'no reason was recorded';
  return {
    kind: 'run_halted',
    key: pipeline,
    severity: 'error',
    category: 'pipelines',
    message: `${count === 1 ? 'A run' : `${count} runs`} of the pipeline ${pipeline} halted.`,
    evidence: `run ${id} halted at ${newest?.haltedAtStep ?? 'its start'}: ${reason}`,
    fix: 'Fix the cause, then revive the run. It continues at the step that failed.',
    commands: [`ductile run revive ${id}`, `ductile run cancel ${id}`],
    why: id,
    since: halted.at(-1)?.completedAt,
    count,
    detail: { pipeline, run_ids: halted.slice(0, IDS_MAX).map((run) => run.id) },
  };
}

const IDS_MAX = 5;
