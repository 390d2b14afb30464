import * as z from 'zod';
import { moment } from '../base/fields.ts';
import { limits } from '../base/limits.ts';
import type { DirectiveType } from '../directive/directive.ts';

/** The signals to replay: one by its id, or all that match a filter. */
export interface ReplayChoice {
  readonly signal_id?: string | undefined;
  readonly type?: string | undefined;
  readonly source?: string | undefined;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  /** The failed replay that this one continues. Its filter applies. */
  readonly resume?: string | undefined;
  /** Only this handler: a plugin, `<plugin>.<command>` or `pipeline:<name>`. */
  readonly handler?: string | undefined;
  /** Includes handlers that succeeded before, or are running. */
  readonly force: boolean;
  readonly limit: number;
}

const fields = {
  type: z.string().min(1).max(limits.eventTypeBytesMax).optional(),
  source: z.string().min(1).max(limits.eventTypeBytesMax).optional(),
  from: moment().optional(),
  to: moment().optional(),
};

export const replayType: DirectiveType<ReplayChoice> = {
  type: 'signal.replay',
  summary: 'Let signals be handled once more, by what the configuration says now.',
  // A replay repeats work, even for signals that only administrators may see.
  scope: 'system:rw',
  lasting: 'What the handlers do cannot be undone; jobs that have not started can be cancelled.',
  isRepeatable: true,
  isResumable: true,
  params: z
    .strictObject({
      signal_id: z.string().min(1).optional().describe('one signal by its id'),
      ...fields,
      resume: z.string().min(1).optional().describe('the id of a failed replay to continue'),
      handler: z.string().min(1).max(limits.eventTypeBytesMax).optional(),
      force: z
        .boolean()
        .default(false)
        .describe('also by what handled them well before, or does so now'),
      limit: z.int().min(1).max(limits.bulkJobsMax).default(limits.bulkJobsDefault),
    })
    .refine(isOneOrFiltered, {
      error:
        'must name one signal by its id, a filter (type, source, from or to), or a replay to resume',
    }),
  // A failed replay is continued once. A second request returns the directive that continues it.
  sameness: ({ resume }) => (resume === undefined ? 'each' : 'latest'),
  target: ({ signal_id: id, type, source, resume }) =>
    resume === undefined ? (id ?? `*:${type ?? '*'}:${source ?? '*'}`) : resumeTarget(resume),
};

export function resumeTarget(directiveId: string): string {
  return `resume:${directiveId}`;
}

function isOneOrFiltered(choice: Readonly<Record<string, unknown>>): boolean {
  // The record of a replay that continues another contains the other's filter, too.
  if (choice['resume'] !== undefined) return true;
  const isFiltered = Object.keys(fields).some((name) => choice[name] !== undefined);
  return (choice['signal_id'] !== undefined) !== isFiltered;
}
