import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { limits } from '../../base/limits.ts';
import type { Check } from '../check.service.ts';
import type { LiveFinding } from '../finding.ts';

/**
 * Finds a disk without room for the database. `doctor` runs this check on the machine itself, so it
 * works even if the disk is too full to record an incident.
 */
export const findFullDisk: Check = async ({ config: { state }, isRoot }) => {
  // The disk of a PostgreSQL server is elsewhere.
  if (!isRoot || state.kind !== 'sqlite') return [];
  const path = dirname(state.path);
  const space = await statfs(path).catch(() => undefined);
  if (space === undefined) return [];
  const { bavail, blocks, bsize } = space;
  return describeDisk({ path, free: bavail * bsize, size: blocks * bsize });
};

interface DiskSpace {
  readonly path: string;
  readonly free: number;
  readonly size: number;
}

/** Returns the finding of a disk that is nearly full. */
export function describeDisk({ path, free, size }: DiskSpace): LiveFinding[] {
  const { freePart, freeBytes } = limits.diskNearlyFull;
  if (free >= Math.min(size * freePart, freeBytes)) return [];
  return [
    {
      kind: 'disk_full',
      key: 'state',
      severity: 'error',
      category: 'state',
      impact: 'everything',
      message: `The disk of ${path} is nearly full; without room, Ductile accepts and records nothing.`,
      evidence: `${toMib(free)} MiB of ${toMib(size)} MiB are free`,
      fix:
        `Free space on the disk of ${path}. Work continues by itself when there is room. ` +
        'Pruning history makes room inside the database; it does not make the file smaller.',
      commands: [`df -h '${path}'`, 'ductile system prune'],
      detail: { path, free, size },
    },
  ];
}

const MIB = 1024 * 1024;

function toMib(bytes: number): number {
  return Math.floor(bytes / MIB);
}
