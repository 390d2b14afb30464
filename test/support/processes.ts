import { readdir, readFile } from 'node:fs/promises';

export interface ProcessInfo {
  readonly pid: number;
  readonly parent: number;
  readonly command: string;
}

/** Lists the running descendants of a process; empty without /proc. */
export async function findDescendants(pid: number): Promise<ProcessInfo[]> {
  const all = await listProcesses();
  const found: ProcessInfo[] = [];
  const parents = new Set([pid]);
  for (let size = 0; size !== parents.size;) {
    size = parents.size;
    for (const info of all) {
      if (parents.has(info.pid) || !parents.has(info.parent)) continue;
      parents.add(info.pid);
      found.push(info);
    }
  }
  return found;
}

async function listProcesses(): Promise<ProcessInfo[]> {
  const names = await readdir('/proc').catch(() => []);
  const infos = await Promise.all(names.filter((name) => /^\d+$/.test(name)).map(readProcess));
  return infos.filter((info) => info !== undefined);
}

async function readProcess(name: string): Promise<ProcessInfo | undefined> {
  try {
    const stat = await readFile(`/proc/${name}/stat`, 'utf8');
    // The second field is the program's name in parentheses, which may contain any character.
    const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (state === 'Z' || state === 'X') return undefined;
    const command = (await readFile(`/proc/${name}/cmdline`, 'utf8')).replaceAll('\0', ' ').trim();
    return { pid: Number(name), parent: Number(parent), command };
  } catch {
    return undefined;
  }
}

export function kill({ pid }: ProcessInfo): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It ended before the signal.
  }
}
