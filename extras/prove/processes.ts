import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { promisify } from 'node:util';

export interface RunningProcess {
  readonly pid: number;
  readonly parent: number;
  readonly command: string;
}

/** Lists the running descendants of a process; empty if the system doesn't show them. */
export async function listDescendants(pid: number): Promise<RunningProcess[]> {
  const all = process.platform === 'linux' ? await readProc() : await readPs();
  const children = Map.groupBy(all, ({ parent }) => parent);
  const found: RunningProcess[] = [];
  const waiting = [pid];
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    const own = children.get(at) ?? [];
    found.push(...own);
    waiting.push(...own.map((child) => child.pid));
  }
  return found;
}

async function readProc(): Promise<RunningProcess[]> {
  const names = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const read = await Promise.all(names.map(readProcEntry));
  return read.filter((found) => found !== undefined);
}

async function readProcEntry(name: string): Promise<RunningProcess | undefined> {
  try {
    const stat = await readFile(`/proc/${name}/stat`, 'utf8');
    // The program's name comes before these fields, in parentheses, and may contain any character.
    const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (state === 'Z' || state === 'X') return undefined;
    const command = await readFile(`/proc/${name}/cmdline`, 'utf8');
    return { pid: Number(name), parent: Number(parent), command: command.replaceAll('\0', ' ') };
  } catch {
    // The process has ended meanwhile.
    return undefined;
  }
}

async function readPs(): Promise<RunningProcess[]> {
  try {
    const { stdout } = await promisify(execFile)('ps', ['-axo', 'pid=,ppid=,args=']);
    return stdout.split('\n').flatMap((line) => {
      const [, pid, parent, command] = /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line) ?? [];
      if (command === undefined) return [];
      return [{ pid: Number(pid), parent: Number(parent), command }];
    });
  } catch {
    return [];
  }
}
