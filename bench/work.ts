import { rmSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const TMPFS_MAGIC = 0x01021994;

let made: Promise<string> | undefined;

/**
 * The directory of this run's databases: under DUCTILE_BENCH_DIR, else the system's temporary
 * directory. It must lie on a disk, or a commit would cost nothing.
 */
export async function workDirectory(): Promise<string> {
  made ??= make(process.env['DUCTILE_BENCH_DIR'] ?? tmpdir());
  return await made;
}

/** A directory inside it, empty. */
export async function emptyDirectory(name: string): Promise<string> {
  const directory = join(await workDirectory(), name);
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory);
  return directory;
}

async function make(parent: string): Promise<string> {
  const { type } = await statfs(parent);
  if (type === TMPFS_MAGIC) {
    throw new Error(`${parent} is kept in memory; name a directory on a disk in DUCTILE_BENCH_DIR`);
  }
  const directory = await mkdtemp(join(parent, 'ductile-bench-'));
  // PostgreSQL does not run as root; its own user must be able to enter.
  await chmod(directory, 0o755);
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  return directory;
}
