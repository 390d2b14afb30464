import { DuctileError } from '../base/errors.ts';

/** A problem in a file that users write. */
export interface Problem {
  /** `file:line:column`, or the file alone. */
  readonly place: string;
  /** The dotted key, such as `service.max_workers`; empty for the file as a whole. */
  readonly key: string;
  /** The predicate of the key: "must be at least 1, not 0". */
  readonly message: string;
  readonly hint?: string;
}

/** Makes a problem without the optional field when there is no hint. */
export function makeProblem(place: string, key: string, message: string, hint?: string): Problem {
  return hint === undefined ? { place, key, message } : { place, key, message, hint };
}

/** Makes one error of all problems, sorted by location. */
export function configInvalid(found: readonly Problem[]): DuctileError {
  const problems = sortProblems(found);
  const [first] = problems;
  if (first !== undefined && problems.length === 1) {
    const { place, hint } = first;
    return new DuctileError('CONFIG_INVALID', sentence(first), {
      place,
      hint,
      details: { problems },
    });
  }
  const message = `The configuration has ${problems.length} problems: ${problems.map(describeProblem).join(' ')}`;
  return new DuctileError('CONFIG_INVALID', message, {
    hint: 'Correct them, then start again.',
    details: { problems },
  });
}

/** Formats the problem in one line, with its location and hint. */
export function describeProblem(problem: Problem): string {
  const end = problem.hint === undefined ? '' : ` ${problem.hint}`;
  return `${problem.place}: ${sentence(problem)}.${end}`;
}

export function sortProblems<P extends Problem>(problems: readonly P[]): P[] {
  if (problems.length < 2) return [...problems];
  // Created on use: it takes longer than most commands.
  const byPlace = new Intl.Collator('en', { numeric: true });
  return problems.toSorted((a, b) => byPlace.compare(a.place, b.place));
}

/** Formats the problem without its location. */
export function sentence({ key, message }: Problem): string {
  return key === '' ? message : `${key} ${message}`;
}
