/** Lock for the turns of a conversation; it ends with its holder. */
import { readFileSync, rmSync, statSync } from 'node:fs';
import { rm, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isOwnerGone, ownMark } from './owner.ts';

const LOCK = '.turn';
const RENEW_MS = 1000;
/** Expiry of a lock whose holder is unknown and that wasn't renewed. */
const STALE_MS = 15_000;
const LOOK_MS = 100;

/**
 * Runs a function while no other turn of the folder runs, or gives up after a time. Jobs with a
 * dependency key never overlap; this is for heartbeats, pipelines and manual turns.
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
    // If another process removed the lock, nothing can be done here.
    utimes(file, now, now).catch(() => undefined);
  }, RENEW_MS);
  const release = (): void => {
    if (readMark(file) === ownMark()) rmSync(file, { force: true });
  };
  // Even if the plugin is stopped meanwhile.
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
  // Only one process may remove a stale lock; a second one would remove the new lock.
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
