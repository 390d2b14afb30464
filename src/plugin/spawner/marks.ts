import { readdirSync, readFileSync } from 'node:fs';

/**
 * The environment variable that identifies the descendants of a process. The host sets it to
 * `<prefix>.<boot>.<number>`; the prefix identifies the lock file.
 */
export const MARKER_KEY = 'DUCTILE_ATTEMPT';

/** A killed process; its pid may be reused. */
export interface KilledProcess {
  readonly pid: number;
  readonly born: string;
}

/**
 * Kills every process whose marker starts with the prefix, except those that `mayLive` allows, and
 * returns them. Only Linux shows the environment of processes; elsewhere it finds none.
 */
export function killMarked(prefix: string, mayLive: (marker: string) => boolean): KilledProcess[] {
  return listPids().flatMap((pid) => {
    const marker = readMarker(pid);
    if (marker?.startsWith(prefix) !== true || mayLive(marker)) return [];
    const born = readStat(pid)?.born;
    return born !== undefined && sendSignal(pid, 'SIGKILL') ? [{ pid, born }] : [];
  });
}

/**
 * True when the kernel has ended it. The environment disappears before files and locks are
 * released, and a leader can be a zombie while threads still end.
 */
export function isGone({ pid, born }: KilledProcess): boolean {
  const stat = readStat(pid);
  if (stat === undefined || stat.born !== born) return true;
  return (stat.state === 'Z' || stat.state === 'X') && stat.threads <= 1;
}

/** The program's name may contain anything, so count the fields from its end. */
function readStat(
  pid: number,
): { readonly state: string; readonly threads: number; readonly born: string } | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  } catch {
    return undefined;
  }
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return { state: fields[0] ?? '', threads: Number(fields[17]), born: fields[19] ?? '' };
}

/**
 * Sends a signal to a process, or to a group by a negative pid. Returns false if it's gone or not
 * ours.
 */
export function sendSignal(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}

function listPids(): number[] {
  if (process.platform !== 'linux') return [];
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 1 && pid !== process.pid);
}

function readMarker(pid: number): string | undefined {
  let text: string;
  try {
    text = `\0${readFileSync(`/proc/${pid}/environ`, 'latin1')}`;
  } catch {
    return undefined;
  }
  const key = `\0${MARKER_KEY}=`;
  const at = text.indexOf(key);
  if (at === -1) return undefined;
  return text.slice(at + key.length, text.indexOf('\0', at + key.length));
}
