import { DuctileError } from '../base/errors.ts';
import { duration, moment } from '../base/fields.ts';
import { limits } from '../base/limits.ts';
import type { Submission } from '../engine/engine.ts';

/** The two ways to say that something is for later. */
export const dueFields = {
  run_at: moment().optional().describe('start it at this time, not before'),
  delay: duration({ minMs: 0, maxMs: limits.delayMsMax })
    .optional()
    .describe('start it after this time, not before'),
};

export function dueOf({
  run_at: at,
  delay: inMs,
}: {
  readonly run_at?: string | undefined;
  readonly delay?: number | undefined;
}): Pick<Submission, 'due'> {
  if (at !== undefined && inMs !== undefined) {
    const message = 'give either run_at or delay, not both';
    throw new DuctileError('INPUT_INVALID', message, { place: 'delay' });
  }
  if (at !== undefined) return { due: { at } };
  return inMs === undefined ? {} : { due: { inMs } };
}
