/**
 * Cleanups for the end of the calling test file. A worker runs many files and loads the modules of
 * `support` once, so hooks of their own would only run for the first file.
 */
type Cleanup = () => Promise<void>;

const chores: Cleanup[] = [];

export function atEnd(chore: Cleanup): void {
  chores.push(chore);
}

/** The last that was asked for comes first; `from` leaves out those that were there before. */
export async function runCleanups(from = 0): Promise<void> {
  for (const chore of chores.splice(from).toReversed()) await chore();
}

export function countCleanups(): number {
  return chores.length;
}
