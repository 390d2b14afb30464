/** Plausible mistakes, each of which the simulation must find. */
import { mistakesInFencing } from './mistakes-fencing.ts';
import { mistakesInStatements } from './mistakes-statements.ts';
import { mistakesInVerbs } from './mistakes-verbs.ts';
import type { Mistake } from './world.ts';

/** Mistakes of the database or its client. */
const inTransactions: Readonly<Record<string, Mistake>> = {
  'a failure that is not rolled back': { transactions: 'kept' },
  'a commit that did not happen and is believed': { transactions: 'believed' },
};

export const mistakes: Readonly<Record<string, Mistake>> = {
  ...mistakesInVerbs,
  ...mistakesInStatements,
  ...inTransactions,
  ...mistakesInFencing,
};
