import { readdir } from 'node:fs/promises';
import type { Arm } from './frame.ts';

/** Loads the arms that the files of bench/arms export; new files are found automatically. */
export async function loadArms(): Promise<Map<string, Arm>> {
  const directory = new URL('arms/', import.meta.url);
  const arms = new Map<string, Arm>();
  for (const file of await readdir(directory)) {
    const { default: found }: { default: readonly Arm[] } = await import(
      new URL(file, directory).href
    );
    for (const arm of found) {
      if (arms.has(arm.name)) throw new Error(`two arms are named "${arm.name}"`);
      arms.set(arm.name, arm);
    }
  }
  return arms;
}
