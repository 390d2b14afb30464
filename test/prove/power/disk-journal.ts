/** The file operations of a server, recorded by the library that is preloaded into it. */
import { existsSync, readFileSync } from 'node:fs';
import { preload } from '../native/preload.ts';

const kinds = {
  O: 'opened',
  W: 'written',
  T: 'truncated',
  D: 'directoryMade',
  R: 'renamed',
  U: 'unlinked',
  B: 'syncBegan',
  E: 'syncEnded',
  X: 'notFollowed',
} as const;

export interface DiskEntry {
  readonly kind: (typeof kinds)[keyof typeof kinds];
  /** On the monotonic clock, which is the same for every process. */
  readonly atMs: number;
  /** The inode. */
  readonly file: number;
  /** The offset of a write, the new length, or the number of the sync; 1 for a new file. */
  readonly offset: number;
  readonly isDirectory: boolean;
  readonly name: string;
  readonly data: Buffer;
}

const HEADER = 40;
const NS_PER_MS = 1e6;

/** The environment of a server that keeps a journal; `syncUs` is the additional time of a sync. */
export function journalTo(file: string, root: string, syncUs: number): Record<string, string> {
  return {
    ...preload('disk'),
    DISK_ROOT: root,
    DISK_JOURNAL: file,
    DISK_SYNC_US: String(syncUs),
  };
}

/** The same clock in this process. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / NS_PER_MS;
}

/** Throws when the journal has a gap. */
export function readDiskJournal(file: string): DiskEntry[] {
  const bytes = existsSync(file) ? readFileSync(file) : Buffer.alloc(0);
  const entries: DiskEntry[] = [];
  for (let at = 0; at + HEADER <= bytes.length;) {
    const kind = kinds[String.fromCharCode(bytes.readUInt32LE(at)) as keyof typeof kinds];
    const nameEnd = at + HEADER + bytes.readUInt32LE(at + 4);
    const end = nameEnd + bytes.readUInt32LE(at + 8);
    // A process that was killed during the write had not done the operation yet.
    if (end > bytes.length) break;
    const name = bytes.toString('utf8', at + HEADER, nameEnd);
    if (kind === 'notFollowed') throw new Error(`the journal cannot follow ${name}`);
    entries.push({
      kind,
      atMs: Number(bytes.readBigUInt64LE(at + 16)) / NS_PER_MS,
      file: Number(bytes.readBigUInt64LE(at + 24)),
      offset: Number(bytes.readBigUInt64LE(at + 32)),
      isDirectory: bytes.readUInt32LE(at + 12) === 1,
      name,
      data: bytes.subarray(nameEnd, end),
    });
    at = end;
  }
  return entries;
}
