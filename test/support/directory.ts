import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { atEnd } from './at-end.ts';

/**
 * A new temporary directory. It is removed at the end of the file and not of the test, so that hooks
 * that stop what still writes there, and directories that several tests share, need no thought.
 */
export async function makeDirectory(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'ductile-test-'));
  atEnd(() => rm(path, { recursive: true, force: true, maxRetries: 3 }));
  return path;
}
