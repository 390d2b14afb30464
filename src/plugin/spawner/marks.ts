import { readdirSync, readFileSync } from 'node:fs';

/**
 * The environment variable by which the descendants of one process are known, wherever they went.
 * The host sets it; its value is `<prefix>.<boot>.<number>`, where the prefix names the lock file.
 */
export const MARKER_KEY = 'DUCTILE_ATTEMPT';

/**
 * Kills every process whose marker begins with the prefix, unless it may live, and says how many
 * it found. Only Linux shows the environment of processes; elsewhere it finds none.
 */
export function killMarked(prefix: string, mayLive: (marker: string) => boolean): number {
  let found = 0;
  for (const pid of listPids()) {
    const marker = readMarker(pid);
    if (marker?.startsWith(prefix) !== true || mayLive(marker)) continue;
    found += 1;
    sendSignal(pid, 'SIGKILL');
  }
  return found;
}

/** A negative pid is a group. That it is gone already is as good; that it is not ours, a pity. */
export function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    return;
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
