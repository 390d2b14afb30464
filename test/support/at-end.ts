/**
 * Cleanups for the end of the calling test file. A worker runs many files and loads the modules of
 * `support` once, so their own hooks would only run for the first file.
 */
type Cleanup = () => Promise<void>;

const chores: Cleanup[] = [];

export function atEnd(chore: Cleanup): void {
  chores.push(chore);
}

/** Runs cleanups in reverse order of their registration, from the index `from` on. */
export async function runCleanups(from = 0): Promise<void> {
  for (const chore of chores.splice(from).toReversed()) await chore();
}

export function countCleanups(): number {
  return chores.length;
}
