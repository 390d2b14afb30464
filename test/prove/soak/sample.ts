/** The resources of a server and its spawner at a moment, as the kernel reports them. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { findSpawner, type Server } from '../../support/crash/server.ts';
import type { TestPlace } from '../../support/instance.ts';
import { collect } from './collect.ts';

/** The maximum growth of each measure over all counted slices, which a healthy server also reaches. */
export const measures = {
  // Memory rises until it is collected, so only its lowest values are significant.
  rssMib: Infinity,
  helperRssMib: 4,
  descriptors: 4,
  threads: 2,
  children: 2,
  databaseMib: 6,
  walMib: 6,
} as const;

/**
 * The maximum growth of memory after a full garbage collection, from the lowest value of the first
 * third to that of the last third.
 */
export const floors = { leftHeapMib: 3, leftRssMib: 12 } as const;

export type Measure = keyof typeof measures;
export type Floor = keyof typeof floors;
export type Sample = Partial<Record<Measure | Floor, number>> & { readonly zombies: number };

const KIB_PER_MIB = 1024;

export async function takeSample({ pid }: Server, { config }: TestPlace): Promise<Sample> {
  const spawner = await findSpawner(pid);
  const pids = spawner === undefined ? [pid] : [pid, spawner];
  const { state } = config;
  return {
    ...(spawner === undefined ? {} : { helperRssMib: residentMib(spawner) }),
    rssMib: residentMib(pid),
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    threads: readdirSync(`/proc/${pid}/task`).length,
    children: pids.flatMap(childrenOf).length,
    zombies: pids.flatMap(childrenOf).filter(isZombie).length,
    ...(state.kind === 'sqlite'
      ? { databaseMib: mibOf(state.path), walMib: mibOf(`${state.path}-wal`) }
      : {}),
  };
}

/** The resources that are left when nothing is running. */
export async function takeFloor(server: Server, { directory }: TestPlace): Promise<Sample> {
  const { heapMib } = await collect(server, directory);
  return { leftHeapMib: heapMib, leftRssMib: residentMib(server.pid), zombies: 0 };
}

function residentMib(pid: number): number {
  const status = readOf(`/proc/${pid}/status`);
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / KIB_PER_MIB;
}

function childrenOf(pid: number): number[] {
  return readOf(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean).map(Number);
}

function isZombie(pid: number): boolean {
  return /\) Z /.test(readOf(`/proc/${pid}/stat`));
}

/** Returns an empty text if the process has just ended. */
function readOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function mibOf(path: string): number {
  return (statSync(path, { throwIfNoEntry: false })?.size ?? 0) / KIB_PER_MIB ** 2;
}
