import * as z from 'zod';
import { moment } from '../base/fields.ts';
import { limits } from '../base/limits.ts';

/** The type of the directive. */
export const REPLAY = 'signal.replay';

const fields = {
  type: z.string().min(1).max(limits.eventTypeBytesMax).optional(),
  source: z.string().min(1).max(limits.eventTypeBytesMax).optional(),
  from: moment().optional(),
  to: moment().optional(),
};

/** The signals to replay: one by its id, or all that match a filter. */
export const replayParams = z
  .strictObject({
    signal_id: z.string().min(1).optional().describe('the id of a single signal'),
    ...fields,
    resume: z
      .string()
      .min(1)
      .optional()
      .describe('the id of a failed replay to continue, whose filter applies'),
    handler: z
      .string()
      .min(1)
      .max(limits.eventTypeBytesMax)
      .optional()
      .describe('only this handler: a plugin, `<plugin>.<command>` or `pipeline:<name>`'),
    force: z
      .boolean()
      .default(false)
      .describe('include handlers that already succeeded or are in progress (default: false)'),
    limit: z.int().min(1).max(limits.bulkJobsMax).default(limits.bulkJobsDefault),
  })
  .refine(isOneOrFiltered, {
    error:
      'must name one signal by its id, a filter (type, source, from or to), or a replay to resume',
  });

export type ReplayChoice = z.output<typeof replayParams>;

export function resumeTarget(directiveId: string): string {
  return `resume:${directiveId}`;
}

function isOneOrFiltered(choice: Readonly<Record<string, unknown>>): boolean {
  // The record of a replay that continues another contains the other's filter, too.
  if (choice['resume'] !== undefined) return true;
  const isFiltered = Object.keys(fields).some((name) => choice[name] !== undefined);
  return (choice['signal_id'] !== undefined) !== isFiltered;
}
