/** State of a pipeline's step, over all branches that reached it. */
export interface StepState {
  readonly status: string;
  /** Number of branches that reached it. */
  readonly count: number;
  readonly ended: number;
  readonly jobId: string | null;
}

/** Step or branch of a run. */
interface StepRow {
  readonly step: string;
  readonly status: string;
  readonly job_id: string | null;
  readonly completed_at: string | null;
}

/** Statuses from the worst to the best: the worst one is shown. */
const order = [
  'failed',
  'halted',
  'running',
  'waiting',
  'queued',
  'cancelled',
  'succeeded',
  'skipped',
];

export function statesOf(
  steps: readonly StepRow[],
  branches: readonly StepRow[],
): ReadonlyMap<string, StepState> {
  const openBranches = branches
    .filter(({ completed_at }) => completed_at === null)
    .map((branch) => ({
      ...branch,
      status: branch.status === 'advancing' ? 'running' : branch.status,
    }));
  const rowsByStep = Map.groupBy(
    [...steps, ...openBranches.filter((branch) => !hasOpenRow(branch, steps))],
    ({ step }) => step,
  );
  return new Map(
    [...rowsByStep].map(([step, rows]) => [
      step,
      {
        status: worst(rows.map(({ status }) => status)),
        count: rows.length,
        ended: rows.filter(({ completed_at }) => completed_at !== null).length,
        jobId: rows.length === 1 ? (rows[0]?.job_id ?? null) : null,
      },
    ]),
  );
}

/** True if the current step of a branch has a row already. */
function hasOpenRow(branch: StepRow, steps: readonly StepRow[]): boolean {
  return steps.some(({ step, completed_at }) => step === branch.step && completed_at === null);
}

function worst(statuses: readonly string[]): string {
  const rank = (status: string): number => {
    const at = order.indexOf(status);
    return at === -1 ? order.length : at;
  };
  return statuses.toSorted((a, b) => rank(a) - rank(b))[0] ?? 'queued';
}
