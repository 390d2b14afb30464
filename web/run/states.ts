/** What is known of a step of a pipeline, over all branches that took it. */
export interface StepState {
  readonly status: string;
  /** How often it was taken. */
  readonly count: number;
  readonly ended: number;
  readonly jobId: string | null;
}

interface Taken {
  readonly step: string;
  readonly status: string;
  readonly job_id: string | null;
  readonly completed_at: string | null;
}

interface Standing {
  readonly step: string;
  readonly status: string;
  readonly job_id: string | null;
  readonly completed_at: string | null;
}

/** The worst of several is what is shown of all. */
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
  steps: readonly Taken[],
  branches: readonly Standing[],
): ReadonlyMap<string, StepState> {
  const now = branches
    .filter(({ completed_at }) => completed_at === null)
    .map((branch) => ({
      ...branch,
      status: branch.status === 'advancing' ? 'running' : branch.status,
    }));
  const known = Map.groupBy(
    [...steps, ...now.filter((one) => !isTold(one, steps))],
    ({ step }) => step,
  );
  return new Map(
    [...known].map(([step, taken]) => [
      step,
      {
        status: worst(taken.map(({ status }) => status)),
        count: taken.length,
        ended: taken.filter(({ completed_at }) => completed_at !== null).length,
        jobId: taken.length === 1 ? (taken[0]?.job_id ?? null) : null,
      },
    ]),
  );
}

/** Where a branch stands may have a row of its own already. */
function isTold(branch: Standing, steps: readonly Taken[]): boolean {
  return steps.some(({ step, completed_at }) => step === branch.step && completed_at === null);
}

function worst(statuses: readonly string[]): string {
  const rank = (status: string): number => {
    const at = order.indexOf(status);
    return at === -1 ? order.length : at;
  };
  return statuses.toSorted((a, b) => rank(a) - rank(b))[0] ?? 'queued';
}
