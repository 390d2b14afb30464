import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Ledger } from '../ledger/ledger.ts';

/** Input fields of operations that return a list in pages. */
export const pageFields = {
  limit: z
    .int()
    .min(1)
    .max(limits.pageRowsMax)
    .default(limits.pageRowsMax)
    .describe(`maximum number of rows (default: ${limits.pageRowsMax})`),
  cursor: z
    .string()
    .max(limits.cursorCharsMax)
    .optional()
    .describe('`next_cursor` of the previous page'),
};

const ROWS_USUAL = 50;

/** The fields of long lists, which a page reads with a cursor of `cursor.ts`. */
export const limitField = z
  .int()
  .min(1)
  .max(limits.pageRowsMax)
  .default(ROWS_USUAL)
  .describe(`maximum number of rows (default: ${ROWS_USUAL})`);

export const cursorField = z.string().max(200).describe('`next_cursor` of the previous page');

export const nextCursorField = z
  .string()
  .nullable()
  .describe('cursor of the next page; null on the last page');

interface PageRequest {
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
  throw new DuctileError('INPUT_INVALID', 'the cursor does not belong to this list', {
    place: 'cursor',
    hint: 'Send a `next_cursor` as you received it, or none for the first page.',
  });
}

function byKey(one: { readonly key: string }, two: { readonly key: string }): number {
  if (one.key === two.key) return 0;
  return one.key < two.key ? -1 : 1;
}

type Meta = Ledger['meta'];

/** Keyed by the noun that reads it, which is the same object however a ledger's rows are masked. */
const epochs = new WeakMap<Meta, Promise<string>>();

/**
 * Reads the epoch of a ledger. A restore changes it, because positions in the old ledger mean nothing
 * in the restored one.
 */
export function readEpoch({ meta }: { readonly meta: Meta }): Promise<string> {
  let epoch = epochs.get(meta);
  if (epoch === undefined) {
    // Read once: a ledger can't be restored while a process has it open.
    epoch = meta.read('epoch').then((value) => value ?? '');
    epoch.catch(() => epochs.delete(meta));
    epochs.set(meta, epoch);
  }
  return epoch;
}

const EPOCH_CHARACTERS = 8;

/** Encodes a position in a list of this kind, as text that is opaque to the caller. */
export function writeCursor(kind: string, epoch: string, numbers: readonly number[]): string {
  const text = [kind, epoch.slice(0, EPOCH_CHARACTERS), ...numbers.map((n) => n.toString(36))];
  return Buffer.from(text.join('.')).toString('base64url');
}

/** Returns the numbers of a cursor; 'reset' if it is from before the ledger was restored. */
export function readCursor(
  kind: string,
  epoch: string,
  cursor: string,
  count: number,
): number[] | 'reset' {
  const text = Buffer.from(cursor, 'base64url').toString();
  const [ownKind, ownEpoch, ...rest] = text.split('.');
  const numbers = rest.map((part) =>
    /^[0-9a-z]{1,11}$/.test(part) ? Number.parseInt(part, 36) : NaN,
  );
  const isValid =
    ownKind === kind && numbers.length === count && numbers.every((n) => Number.isSafeInteger(n));
  if (!isValid) {
    throw new DuctileError('INPUT_INVALID', 'the cursor does not belong to this list', {
      place: 'cursor',
      hint: 'Send a `next_cursor` as you received it, or none for the first page.',
    });
  }
  return ownEpoch === epoch.slice(0, EPOCH_CHARACTERS) ? numbers : 'reset';
}

/** Returns the position of a cursor with one number; throws CURSOR_RESET after a restore. */
export function readSeqCursor(kind: string, epoch: string, cursor: string): number {
  const numbers = readCursor(kind, epoch, cursor, 1);
  if (numbers !== 'reset') return numbers[0] ?? 0;
  throw new DuctileError('CURSOR_RESET', 'the cursor is from before the ledger was restored', {
    place: 'cursor',
  });
}
