import { setTimeout as pause } from 'node:timers/promises';
import { tryFileLock } from '../../base/file-lock.ts';

const RETRY_MS = 10;

/** Waits for an earlier spawner to be gone, and holds the lock for as long as this process lives. */
export async function takeLock(path: string): Promise<void> {
  while (tryFileLock(path) === undefined) await pause(RETRY_MS);
}
