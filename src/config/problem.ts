import { DuctileError } from '../base/errors.ts';

/** One thing that is wrong in a file that people write, said so that they can put it right. */
export interface Problem {
  /** `file:line:column`, or the file alone when no line is to blame. */
  readonly place: string;
  /** The dotted key, such as `service.max_workers`; empty when the file as a whole is meant. */
  readonly key: string;
  /** What is wrong, as the predicate of the key: "must be at least 1, not 0". */
  readonly message: string;
  /** What to do about it. */
  readonly hint?: string;
}

/** Makes a problem without the optional field when there is no hint. */
export function makeProblem(place: string, key: string, message: string, hint?: string): Problem {
  return hint === undefined ? { place, key, message } : { place, key, message, hint };
}

/** All problems of a configuration in one error, in the order of their places. */
export function configInvalid(found: readonly Problem[]): DuctileError {
  const problems = sortProblems(found);
  const [first] = problems;
  if (first !== undefined && problems.length === 1) {
    const { place, hint } = first;
    return new DuctileError('CONFIG_INVALID', sentence(first), {
      place,
      ...(hint === undefined ? {} : { hint }),
      details: { problems },
    });
  }
  const message = `The configuration has ${problems.length} problems: ${problems.map(describeProblem).join(' ')}`;
  return new DuctileError('CONFIG_INVALID', message, {
    hint: 'Correct them, then start again.',
    details: { problems },
  });
}

/** The problem on one line, with its place and its hint. */
export function describeProblem(problem: Problem): string {
  const end = problem.hint === undefined ? '' : ` ${problem.hint}`;
  return `${problem.place}: ${sentence(problem)}.${end}`;
}

export function sortProblems<P extends Problem>(problems: readonly P[]): P[] {
  if (problems.length < 2) return [...problems];
  // Made here and not once for all: it takes longer to make than most commands take.
  const byPlace = new Intl.Collator('en', { numeric: true });
  return problems.toSorted((a, b) => byPlace.compare(a.place, b.place));
}

/** The problem in words, without its place. */
export function sentence({ key, message }: Problem): string {
  return key === '' ? message : `${key} ${message}`;
}
