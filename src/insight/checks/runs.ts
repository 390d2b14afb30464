import { limits } from '../../base/limits.ts';
import type { HaltedRun } from '../finding-reads.ts';
import type { Check, CheckContext } from '../check.service.ts';
import { findingId, type LiveFinding } from '../finding.ts';
import { showText } from '../show-text.service.ts';
import { groupUnacknowledged, lookBack } from '../since.service.ts';

const KIND = 'run_halted';

/** Finds pipelines with halted runs that weren't revived, one finding for each pipeline. */
export const findHaltedRuns: Check = async (context) => {
  const runs = await context.ledger.haltedRuns(lookBack(context.now));
  const byPipeline = groupUnacknowledged(runs, KIND, ({ pipeline }) => pipeline, context);
  const groups = byPipeline.slice(0, limits.findingGroupsMax);
  return await Promise.all(
    groups.map(([pipeline, halted]) => describeHalted(pipeline, halted, context)),
  );
};

async function describeHalted(
  pipeline: string,
  halted: readonly HaltedRun[],
  { ledger }: CheckContext,
): Promise<LiveFinding> {
  const [newest] = halted;
  const id = newest?.id ?? '';
  const count = halted.length;
  const text = newest?.haltMessage ?? newest?.haltReason ?? null;
  const reason = await showText(ledger, text, { runId: id });
  const runs = count === 1 ? 'A run' : `${count} runs`;
  return {
    kind: KIND,
    key: pipeline,
    severity: 'error',
    category: 'pipelines',
    impact: 'item',
    message: `${runs} of the pipeline ${pipeline} halted.`,
    evidence: `run ${id} halted at ${newest?.haltedAtStep ?? 'its start'}: ${reason}`,
    fix: 'Fix the cause, then revive the run. It continues at the step that failed.',
    commands: [
      `ductile run revive ${id}`,
      `ductile incident acknowledge ${findingId({ kind: KIND, key: pipeline })}`,
    ],
    why: id,
    since: halted.at(-1)?.completedAt,
    count,
    detail: { pipeline, run_ids: halted.slice(0, limits.findingIdsMax).map((run) => run.id) },
  };
}
