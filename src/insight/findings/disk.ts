import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { limits } from '../../base/limits.ts';
import { defineFinding } from '../define-finding.service.ts';

interface DiskSpace {
  readonly path: string;
  readonly free: number;
  readonly size: number;
}

/** `doctor` runs on the machine itself, so it works even if no incident can be recorded. */
export const diskFull = defineFinding<DiskSpace>({
  kind: 'disk_full',
  condition: 'The disk of a SQLite ledger has less than 5 % or 2 GiB free, whichever is less.',
  rank: { severity: 'error', category: 'state', impact: 'everything' },
  fix:
    'Free space on the disk. Work continues by itself when there is room. ' +
    'Pruning history makes room inside the database; it does not make the file smaller.',
  command: 'ductile system prune --dry-run',
  incident: 'found',
  async find({ config: { state }, isRoot }) {
    // The disk of a PostgreSQL server is elsewhere.
    if (!isRoot || state.kind !== 'sqlite') return [];
    const space = await readDiskSpace(dirname(state.path)).catch(() => undefined);
    return space === undefined || !isNearlyFull(space) ? [] : [space];
  },
  describe: ({ path, free, size }) => ({
    key: 'state',
    message: `The disk of ${path} is nearly full; without room, Ductile accepts and records nothing.`,
    evidence: `${toMib(free)} MiB of ${toMib(size)} MiB are free`,
    commands: [`df -h '${path}'`, 'ductile system prune'],
    detail: { path, free, size },
  }),
});

export async function readDiskSpace(path: string): Promise<DiskSpace> {
  const { bavail, blocks, bsize } = await statfs(path);
  return { path, free: bavail * bsize, size: blocks * bsize };
}

export function isNearlyFull({ free, size }: DiskSpace): boolean {
  const { freePart, freeBytes } = limits.diskNearlyFull;
  return free < Math.min(size * freePart, freeBytes);
}

const MIB = 1024 * 1024;

export function toMib(bytes: number): number {
  return Math.floor(bytes / MIB);
}
