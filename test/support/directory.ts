import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';

const made: string[] = [];

/** A new temporary directory; it is removed when the tests of the file that asked are done. */
export async function makeDirectory(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'ductile-test-'));
  made.push(path);
  return path;
}

// At the end of the file and not of the test, so that hooks that stop what still writes there, and
// directories that several tests share, need no thought.
afterAll(async () => {
  for (const path of made.splice(0))
    await rm(path, { recursive: true, force: true, maxRetries: 3 });
});
