import { DuctileError } from '../base/errors.ts';
import { isObject } from '../base/json.ts';
import type { Operation } from './define.ts';

export interface WriteMode {
  readonly dryRun: boolean;
  /** The input without `dry_run`, and without `apply` where the operation doesn't require it. */
  readonly rest: unknown;
}

/**
 * Takes `dry_run` and `apply` out of the input of an operation that changes something. Every such
 * operation accepts both; `apply` reaches only the operations that require one of them.
 */
export function takeWriteMode({ plan, input }: Operation, raw: unknown): WriteMode {
  if (plan === undefined || !isObject(raw)) return { dryRun: false, rest: raw };
  const { dry_run: dryRun = false, apply, ...rest } = raw;
  const isDry = isDryRun(dryRun, apply);
  const isRequired = apply !== undefined && 'apply' in input.shape;
  return { dryRun: isDry, rest: isRequired ? { ...rest, apply } : rest };
}

/** Whether a dry run is asked for. A caller that asks in any way must never find that it was done. */
export function isDryRun(dryRun: unknown = false, apply?: unknown): boolean {
  if (typeof dryRun !== 'boolean') {
    throw new DuctileError('INPUT_INVALID', 'dry_run must be true or false', { place: 'dry_run' });
  }
  if (apply === undefined) return dryRun;
  if (apply !== true) {
    throw new DuctileError('INPUT_INVALID', 'apply must be true', {
      place: 'apply',
      hint: 'Nothing was changed. Use dry_run to see what would happen.',
    });
  }
  if (!dryRun) return false;
  throw new DuctileError('INPUT_INVALID', 'dry_run and apply exclude each other', {
    place: 'apply',
    hint: 'Nothing was changed. Use dry_run to see what would happen, or apply to do it.',
  });
}
