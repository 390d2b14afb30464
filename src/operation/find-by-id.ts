import { DuctileError, type ErrorCode } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Directive } from '../directive/directive.ts';
import type { Ledger } from '../ledger/ledger.ts';

/** Characters of a whole id. */
export const ID_LENGTH = 36;

const CANDIDATES_SHOWN = 5;

/** Reads of one kind of object, for finding it by its id. */
interface IdSearch<T> {
  readonly noun: string;
  /** The plural (default: the noun with an s). */
  readonly nouns?: string;
  /** The error if there is none. */
  readonly errorCode: ErrorCode;
  readonly findExact: () => Promise<T | undefined>;
  /** Lists the objects whose id starts with the prefix, newest first. */
  readonly listByPrefix: (page: {
    readonly idPrefix: string;
    readonly limit: number;
  }) => Promise<T[]>;
}

/** Finds the object with this id, or the only one whose id starts with it. */
export async function findById<T extends { readonly id: string }>(
  id: string,
  { noun, nouns = `${noun}s`, errorCode, findExact, listByPrefix }: IdSearch<T>,
): Promise<T> {
  const whole = await findExact();
  if (whole !== undefined) return whole;
  const page = { idPrefix: id, limit: limits.pageRowsMax };
  const found = id.length === ID_LENGTH ? [] : await listByPrefix(page);
  const [only] = found;
  if (only === undefined) {
    throw new DuctileError(errorCode, `there is no ${noun} ${id}`, { place: id });
  }
  if (found.length === 1) return only;
  const candidates = found.slice(0, CANDIDATES_SHOWN).map((candidate) => candidate.id);
  throw new DuctileError(
    'INPUT_INVALID',
    `${found.length} ${nouns} have an id that starts with ${id}`,
    {
      place: 'id',
      hint: `Use a longer part of the id. The newest matches are ${candidates.join(', ')}.`,
      details: { candidates },
    },
  );
}

export function findDirectiveById(ledger: Ledger, id: string): Promise<Directive> {
  return findById(id.toLowerCase(), {
    noun: 'directive',
    errorCode: 'DIRECTIVE_NOT_FOUND',
    findExact: () => ledger.directives.find(id.toLowerCase()),
    listByPrefix: (page) => ledger.directives.list(page),
  });
}

/** An object that a name can mean. */
export interface NamedCandidate {
  readonly kind: string;
  readonly id: string;
  /** A few words that distinguish it from the others. */
  readonly label?: string;
}

/** Creates the error for a name that can mean several objects; it lists them with their kinds. */
export function ambiguousName(given: string, candidates: readonly NamedCandidate[]): DuctileError {
  const named = candidates
    .slice(0, NAMED_SHOWN)
    .map(({ kind, id, label }) => `${kind} ${id}${label === undefined ? '' : ` (${label})`}`);
  const more = candidates.length - named.length;
  const rest = more > 0 ? ` and ${more} more` : '';
  return new DuctileError('INPUT_INVALID', `${given} matches ${candidates.length} objects`, {
    place: 'id',
    hint: `Use the kind and the full id of one of them: ${named.join(', ')}${rest}.`,
    details: { candidates: candidates.map((one) => ({ ...one })) },
  });
}

const NAMED_SHOWN = 10;
