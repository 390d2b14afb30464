/** Who left something on disk, and whether that process still runs. */
import { createHash } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** Words of a name of a file, so that it fits into one. */
const MARK = /^([0-9a-f]{12})-(\d{1,10})-(\d{1,20})$/;

/** Of this process alone, also when its number is given to another. */
export function ownMark(): string {
  return `${findPlace()}-${process.pid}-${readStart(process.pid) ?? '0'}`;
}

/** Undefined where that cannot be known: it ran elsewhere, or did not say who it was. */
export function isOwnerGone(mark: string): boolean | undefined {
  const [, place, pid, start] = MARK.exec(mark) ?? [];
  if (place !== findPlace()) return undefined;
  const number = Number(pid);
  if (!isRunning(number)) return true;
  const now = readStart(number);
  return now !== undefined && now !== start;
}

/** Where a number means the same process: one boot of one machine and, on Linux, one namespace. */
function findPlace(): string {
  const words = [
    hostname(),
    tryTo(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8')),
    tryTo(() => readlinkSync('/proc/self/ns/pid')),
  ];
  return createHash('sha256').update(words.join('\n')).digest('hex').slice(0, 12);
}

/** In ticks since the boot; 'ended' of a process that nobody has taken notice of yet. */
function readStart(pid: number): string | undefined {
  const text = tryTo(() => readFileSync(`/proc/${pid}/stat`, 'utf8'));
  // The name before it is in parentheses and may have anything in it.
  const [state, ...more] = text?.slice(text.lastIndexOf(')') + 2).split(' ') ?? [];
  return state === 'Z' || state === 'X' ? 'ended' : more[18];
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

function tryTo(read: () => string): string | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
