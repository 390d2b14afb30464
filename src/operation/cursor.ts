import { DuctileError } from '../base/errors.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { bareLedger } from '../access/visibility.operations.ts';

const epochs = new WeakMap<Ledger, Promise<string>>();

/** Which record this is: a restored ledger is another one, and places in the old mean nothing in it. */
export function epochOf(given: Ledger): Promise<string> {
  const ledger = bareLedger(given);
  let epoch = epochs.get(ledger);
  if (epoch === undefined) {
    // Nobody restores a ledger under a process that has it open, so it is asked for once.
    epoch = ledger.meta.read('epoch').then((value) => value ?? '');
    epoch.catch(() => epochs.delete(ledger));
    epochs.set(ledger, epoch);
  }
  return epoch;
}

const EPOCH_CHARACTERS = 8;

/** A place in a list, for the caller a word without meaning. */
export function writeCursor(kind: string, epoch: string, numbers: readonly number[]): string {
  const text = [kind, epoch.slice(0, EPOCH_CHARACTERS), ...numbers.map((n) => n.toString(36))];
  return Buffer.from(text.join('.')).toString('base64url');
}

/** The numbers of a cursor; 'reset' when it is of another record. */
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
  const isSound =
    ownKind === kind && numbers.length === count && numbers.every((n) => Number.isSafeInteger(n));
  if (!isSound) {
    throw new DuctileError('INPUT_INVALID', 'this is not a cursor of this list', {
      place: 'cursor',
      hint: 'Use a cursor as it was given, or none to begin.',
    });
  }
  return ownEpoch === epoch.slice(0, EPOCH_CHARACTERS) ? numbers : 'reset';
}

/** For lists, which cannot go on in another record. */
export function continueAfter(kind: string, epoch: string, cursor: string): number {
  const numbers = readCursor(kind, epoch, cursor, 1);
  if (numbers !== 'reset') return numbers[0] ?? 0;
  throw new DuctileError('CURSOR_RESET', 'the cursor is from before the ledger was restored', {
    place: 'cursor',
  });
}
