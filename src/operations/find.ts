import { DuctileError, type ErrorCode } from '../base/errors.ts';
import { limits } from '../base/limits.ts';

/** How long a whole id is. */
export const ID_LENGTH = 36;

const CANDIDATES_SHOWN = 5;

export interface Search<T> {
  readonly noun: string;
  /** Several of them, where that is not the noun with an s. */
  readonly nouns?: string;
  readonly missing: ErrorCode;
  readonly exact: () => Promise<T | undefined>;
  /** Those whose id begins so, newest first. */
  readonly beginning: (page: { readonly idPrefix: string; readonly limit: number }) => Promise<T[]>;
}

/** The one with this id, or the only one whose id begins so. */
export async function findById<T extends { readonly id: string }>(
  id: string,
  { noun, nouns = `${noun}s`, missing, exact, beginning }: Search<T>,
): Promise<T> {
  const whole = await exact();
  if (whole !== undefined) return whole;
  const page = { idPrefix: id, limit: limits.pageRowsMax };
  const found = id.length === ID_LENGTH ? [] : await beginning(page);
  const [only] = found;
  if (only === undefined) {
    throw new DuctileError(missing, `there is no ${noun} ${id}`, { place: id });
  }
  if (found.length === 1) return only;
  const candidates = found.slice(0, CANDIDATES_SHOWN).map((one) => one.id);
  throw new DuctileError(
    'INPUT_INVALID',
    `${found.length} ${nouns} have an id that begins with ${id}`,
    {
      place: 'id',
      hint: `Give more of the id; the newest are ${candidates.join(', ')}.`,
      details: { candidates },
    },
  );
}
