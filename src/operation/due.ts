import type { Timestamp } from '../base/clock.ts';
import { DuctileError } from '../base/errors.ts';
import { duration, moment } from '../base/fields.ts';
import { limits } from '../base/limits.ts';

/** The fields with which a caller puts off a job, a run or a directive. */
export const dueFields = {
  run_at: moment().optional().describe('start it at this time, not before'),
  delay: duration({ minMs: 0, maxMs: limits.delayMsMax })
    .optional()
    .describe('start it after this time, not before'),
};

export function toDue({
  run_at: at,
  delay: inMs,
}: {
  readonly run_at?: string | undefined;
  readonly delay?: number | undefined;
}): { due?: { readonly at: Timestamp } | { readonly inMs: number } } {
  if (at !== undefined && inMs !== undefined) {
    const message = 'give either run_at or delay, not both';
    throw new DuctileError('INPUT_INVALID', message, { place: 'delay' });
  }
  if (at !== undefined) return { due: { at } };
  return inMs === undefined ? {} : { due: { inMs } };
}
