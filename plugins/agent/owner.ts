/** Marks files with their process, and checks whether that process still runs. */
import { createHash } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** Mark that is usable in a file name. */
const MARK = /^([0-9a-f]{12})-(\d{1,10})-(\d{1,20})$/;

/** Returns the mark of this process, which stays unique if its pid is reused. */
export function ownMark(): string {
  return `${findPlace()}-${process.pid}-${readStart(process.pid) ?? '0'}`;
}

/** Returns undefined if this is unknown, because the process ran elsewhere or left no mark. */
export function isOwnerGone(mark: string): boolean | undefined {
  const [, place, pid, start] = MARK.exec(mark) ?? [];
  if (place !== findPlace()) return undefined;
  const number = Number(pid);
  if (!isRunning(number)) return true;
  const now = readStart(number);
  return now !== undefined && now !== start;
}

/** Identifies the scope of a pid: one boot of one machine and, on Linux, one PID namespace. */
function findPlace(): string {
  const words = [
    hostname(),
    tryTo(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8')),
    tryTo(() => readlinkSync('/proc/self/ns/pid')),
  ];
  return createHash('sha256').update(words.join('\n')).digest('hex').slice(0, 12);
}

/** Returns the start in ticks since the boot; 'ended' for a zombie. */
function readStart(pid: number): string | undefined {
  const text = tryTo(() => readFileSync(`/proc/${pid}/stat`, 'utf8'));
  // The program's name comes first, in parentheses, and may contain any character.
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
