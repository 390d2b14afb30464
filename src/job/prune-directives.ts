import * as z from 'zod';
import { limits } from '../base/limits.ts';
import type { DirectiveType } from '../directive/type.ts';

/** What is history, and goes when it is past its retention. */
export const history = [
  'jobs',
  'attempts',
  'signals',
  'facts',
  'contexts',
  'directives',
  'transitions',
  'tokens',
  'snapshots',
  'health',
  'schedules',
  'runs',
  'definitions',
  'deliveries',
  'incidents',
] as const;
export type History = (typeof history)[number];

export interface PruneChoice {
  /** All of them unless some are named. */
  readonly what?: readonly History[] | undefined;
  /** In place of what the configuration says. */
  readonly older_than_ms?: number | undefined;
}

export const pruneType: DirectiveType<PruneChoice> = {
  type: 'system.prune',
  summary: 'Delete history that is past its retention, or older than told.',
  lasting: 'What is deleted cannot be brought back but from a backup.',
  scope: 'system:rw',
  // Doing it again does what is left, and nothing else.
  isRepeatable: true,
  isResumable: true,
  params: z
    .strictObject({
      what: z.array(z.enum(history)).min(1).optional().describe('only these kinds of rows'),
      older_than_ms: z.int().min(0).max(limits.delayMsMax).optional(),
    })
    .refine(({ what, older_than_ms: age }) => age === undefined || what !== undefined, {
      path: ['what'],
      error: 'must be named when it is not the retention of the configuration that counts',
    }),
  sameness: () => 'each',
  target: ({ what = ['*'] }) => what.join(','),
};

/** What the runtime does by itself, by the configuration alone; nobody is asked about it. */
export const retentionType: DirectiveType<object> = {
  type: 'system.retention',
  summary: 'Delete history that is past its retention, as configured.',
  scope: 'system:rw',
  isRepeatable: true,
  isResumable: true,
  isImmediate: true,
  params: z.strictObject({}),
  sameness: () => 'each',
  target: () => 'retention',
};
