import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';

/** How a caller asks for a part of a list. */
export const pageFields = {
  limit: z
    .int()
    .min(1)
    .max(limits.pageRowsMax)
    .default(limits.pageRowsMax)
    .describe('at most this many'),
  cursor: z
    .string()
    .max(limits.cursorCharsMax)
    .optional()
    .describe('continue after a page: its `next_cursor`'),
};

export const nextCursorField = z
  .string()
  .nullable()
  .describe('the cursor of the next page; null on the last page');

export interface PageRequest {
  readonly limit: number;
  readonly cursor?: string | undefined;
}

/**
 * Cuts a page out of a short list that is sorted by its key. The cursor is the key of the last row, so
 * a row that is created or deleted between two pages neither repeats nor hides another.
 */
export function cutPage<Row>(
  rows: readonly Row[],
  keyOf: (row: Row) => string,
  { limit, cursor }: PageRequest,
): { readonly page: Row[]; readonly next: string | null } {
  const keyed = rows.map((row) => ({ row, key: keyOf(row) })).toSorted(byKey);
  const after = cursor === undefined ? undefined : readKeyCursor(cursor);
  const left = after === undefined ? keyed : keyed.filter(({ key }) => key > after);
  const page = left.slice(0, limit);
  const last = page.at(-1);
  const isLast = last === undefined || left.length <= limit;
  return {
    page: page.map(({ row }) => row),
    next: isLast ? null : writeKeyCursor(last.key),
  };
}

export function writeKeyCursor(key: string): string {
  return Buffer.from(key).toString('base64url');
}

/** Returns the key in a cursor. Refuses text that isn't a cursor: it would skip rows silently. */
export function readKeyCursor(cursor: string): string {
  const key = Buffer.from(cursor, 'base64url').toString();
  if (writeKeyCursor(key) === cursor) return key;
  throw new DuctileError('INPUT_INVALID', 'this is not a cursor of this list', {
    place: 'cursor',
    hint: 'Send a `next_cursor` as you received it, or none for the first page.',
  });
}

function byKey(one: { readonly key: string }, two: { readonly key: string }): number {
  if (one.key === two.key) return 0;
  return one.key < two.key ? -1 : 1;
}
