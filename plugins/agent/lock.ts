/** One turn of a conversation runs at a time, and a lock is over when its holder is. */
import { readFileSync, rmSync, statSync } from 'node:fs';
import { rm, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isOwnerGone, ownMark } from './owner.ts';

const LOCK = '.turn';
const RENEW_MS = 1000;
/** For one of which it is not known whether its holder runs: nobody renewed it for so long. */
const STALE_MS = 15_000;
const LOOK_MS = 100;

/**
 * Runs while no other turn of the same folder does, or not at all when it had to wait for longer.
 * Jobs with one key are kept apart before they start; this is for heartbeats, pipelines and whoever
 * starts a turn by hand.
 */
export async function alone<T>(
  folder: string,
  waitMs: number,
  run: () => Promise<T>,
): Promise<T | 'busy'> {
  const file = join(folder, LOCK);
  const until = Date.now() + waitMs;
  while (!(await take(file))) {
    if (Date.now() >= until) return 'busy';
    await sleep(LOOK_MS);
  }
  const renewal = setInterval(() => {
    const now = new Date();
    // Whoever removed it has taken the turn; there is nothing to be done about that here.
    utimes(file, now, now).catch(() => undefined);
  }, RENEW_MS);
  const release = (): void => {
    if (readMark(file) === ownMark()) rmSync(file, { force: true });
  };
  // Also when we are told to end in the midst of it.
  process.once('exit', release);
  try {
    return await run();
  } finally {
    process.off('exit', release);
    clearInterval(renewal);
    release();
  }
}

async function take(file: string): Promise<boolean> {
  if (await make(file)) return true;
  if (!isLeft(file)) return false;
  // One at a time clears up, or a second one would remove the lock of whoever came first.
  const clearing = `${file}.clearing`;
  if (isLeft(clearing)) await rm(clearing, { force: true });
  if (!(await make(clearing))) return false;
  try {
    if (isLeft(file)) await rm(file, { force: true });
  } finally {
    await rm(clearing, { force: true });
  }
  return make(file);
}

async function make(file: string): Promise<boolean> {
  try {
    await writeFile(file, ownMark(), { flag: 'wx', mode: 0o600 });
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  }
}

function isLeft(file: string): boolean {
  const renewedAt = statSync(file, { throwIfNoEntry: false })?.mtimeMs;
  const mark = readMark(file);
  if (renewedAt === undefined || mark === undefined) return false;
  return isOwnerGone(mark) ?? Date.now() - renewedAt > STALE_MS;
}

function readMark(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}
