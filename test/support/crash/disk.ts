/** Two ways to let a service run out of disk space. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

export interface Disk {
  readonly name: string;
  /** Reason why it isn't available on this machine. */
  readonly lack: string | undefined;
  /** Called before the service starts. */
  prepare(state: string): void;
  fill(state: string, serverPid: number): void;
  free(state: string, serverPid: number): void;
}

const SIZE = '16m';
const CHUNK = Buffer.alloc(4096);

/** A small file system that is really full: SQLite gets ENOSPC. */
const small: Disk = {
  name: 'a full disk',
  lack: canMount() ? undefined : 'mounting needs root',
  prepare(state) {
    mkdirSync(state);
    run('mount', '-t', 'tmpfs', '-o', `size=${SIZE}`, 'tmpfs', state);
    // Lazily, so that open files don't prevent the unmount.
    onTestFinished(() => run('umount', '--lazy', state));
  },
  fill(state) {
    try {
      for (;;) writeFileSync(join(state, 'hog'), CHUNK, { flag: 'a' });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
    }
  },
  free: (state) => rmSync(join(state, 'hog')),
};

/** A limit on the size of files: SQLite gets EFBIG, which it reports as an I/O error. */
const limited: Disk = {
  name: 'a disk that refuses to write',
  lack: spawnSync('prlimit', ['--version']).error === undefined ? undefined : 'there is no prlimit',
  prepare: () => {},
  fill(state, serverPid) {
    const { size } = statSync(join(state, 'ledger.db-wal'));
    run('prlimit', '--pid', String(serverPid), `--fsize=${size}:`);
  },
  free: (_, serverPid) => run('prlimit', '--pid', String(serverPid), '--fsize=unlimited:'),
};

export const disks: readonly Disk[] = [small, limited];

function canMount(): boolean {
  return process.platform === 'linux' && spawnSync('unshare', ['--mount', 'true']).status === 0;
}

function run(program: string, ...args: string[]): void {
  const { status, stderr, error } = spawnSync(program, args, { encoding: 'utf8' });
  if (status !== 0) throw error ?? new Error(`${program} ${args.join(' ')}: ${stderr}`);
}
