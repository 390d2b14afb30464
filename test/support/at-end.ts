/**
 * What is to be done when the tests of the file that asked are over. A worker runs many files and
 * loads the modules of `support` once, so hooks of their own would only be those of the first file.
 */
type Chore = () => Promise<void>;

const chores: Chore[] = [];

export function atEnd(chore: Chore): void {
  chores.push(chore);
}

/** The last that was asked for comes first. */
export async function doChores(): Promise<void> {
  for (const chore of chores.splice(0).toReversed()) await chore();
}
