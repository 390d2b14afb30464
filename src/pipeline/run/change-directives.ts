import * as z from 'zod';
import { limits } from '../../base/limits.ts';
import type { DirectiveType } from '../../directive/directive.ts';

export interface RunChoice {
  readonly run_id: string;
}

export interface ReviveChoice extends RunChoice {
  /** True if the new run gets the baggage of the old one. */
  readonly context: boolean;
}

export interface RetryFromChoice extends ReviveChoice {
  /** The id of a step in the pipeline. */
  readonly step: string;
}

export interface DecisionChoice extends RunChoice {
  /** The id of a step in the pipeline, or of the row that waits. */
  readonly step: string;
  readonly approved: boolean;
  readonly why?: string | undefined;
}

const STEPS = 'What the steps do cannot be undone, and a run is taken up again once.';

const runId = z.string().min(1).describe('one run by its id');
const step = z.string().min(1).max(limits.stepNameCharsMax);
const context = z.boolean().default(true).describe('whether the new run has its baggage');

export const cancelRunType: DirectiveType<RunChoice> = {
  type: 'run.cancel',
  lasting: 'A cancelled run stays cancelled; `ductile run retry-from` does its work in a new one.',
  summary: 'Stop a run: queued work never starts, running processes are stopped.',
  scope: 'runs:rw',
  params: z.strictObject({ run_id: runId }),
  sameness: () => 'toggle',
  target: ({ run_id: id }) => id,
};

export const reviveRunType: DirectiveType<ReviveChoice> = {
  type: 'run.revive',
  lasting: STEPS,
  summary: 'Go on with a halted run in a new one, without repeating what succeeded.',
  scope: 'runs:rw',
  params: z.strictObject({ run_id: runId, context }),
  // Not deduplicated here: the second caller gets RUN_REVIVED with the id of the first revival.
  sameness: () => 'each',
  target: ({ run_id: id }) => id,
};

export const retryFromType: DirectiveType<RetryFromChoice> = {
  type: 'run.retry_from',
  lasting: STEPS,
  summary: 'Do a step of an ended run again in a new one, and everything after it.',
  scope: 'runs:rw',
  params: z.strictObject({
    run_id: runId,
    step: step.describe("the step's id in the pipeline"),
    context,
  }),
  sameness: () => 'each',
  target: ({ run_id: id }) => id,
};

export const decideType: DirectiveType<DecisionChoice> = {
  type: 'run.approve',
  lasting: 'What was decided stays decided.',
  summary: 'Say yes or no to a step that waits for a person.',
  scope: 'runs:rw',
  params: z.strictObject({
    run_id: runId,
    step: step.describe("the step's id in the pipeline, or the id of the one that waits"),
    approved: z.boolean().default(true).describe('false to reject'),
    why: z
      .string()
      .min(1)
      .max(limits.decisionReasonCharsMax)
      .optional()
      .describe('the reason, for the record'),
  }),
  sameness: () => 'each',
  target: ({ run_id: id, step: which }) => `${id}/${which}`,
};
