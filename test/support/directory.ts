import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { atEnd } from './at-end.ts';

/**
 * Creates a temporary directory. It is removed at the end of the file, not of the test. So tests can
 * share it, and cleanups can stop processes that still write there.
 */
export async function makeDirectory(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'ductile-test-'));
  atEnd(() => rm(path, { recursive: true, force: true, maxRetries: 3 }));
  return path;
}
