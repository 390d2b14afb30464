import { DuctileError, type ErrorCode } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Directive } from '../directive/directive.ts';
import type { Ledger } from '../ledger/ledger.ts';

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

/** The directive with this id, or the only one whose id begins so. */
export function findDirectiveById(ledger: Ledger, id: string): Promise<Directive> {
  return findById(id.toLowerCase(), {
    noun: 'directive',
    missing: 'DIRECTIVE_NOT_FOUND',
    exact: () => ledger.directives.find(id.toLowerCase()),
    beginning: (page) => ledger.directives.list(page),
  });
}

/** One of several things that a name fits. */
export interface NamedCandidate {
  readonly kind: string;
  readonly id: string;
  /** A few words that tell it from the others. */
  readonly label?: string;
}

/** The error that a name fits several things, with all of them and their kinds. */
export function ambiguousName(given: string, candidates: readonly NamedCandidate[]): DuctileError {
  const named = candidates
    .slice(0, NAMED_SHOWN)
    .map(({ kind, id, label }) => `${kind} ${id}${label === undefined ? '' : ` (${label})`}`);
  const more = candidates.length - named.length;
  const rest = more > 0 ? ` and ${more} more` : '';
  return new DuctileError('INPUT_INVALID', `${given} fits ${candidates.length} things`, {
    place: 'id',
    hint: `Give the kind and the whole id of one of them: ${named.join(', ')}${rest}.`,
    details: { candidates: candidates.map((one) => ({ ...one })) },
  });
}

const NAMED_SHOWN = 10;
