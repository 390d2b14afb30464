import { rmSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const TMPFS_MAGIC = 0x01021994;

const MEMORY = '/dev/shm';

let made: Promise<string> | undefined;
let madeInMemory: Promise<string> | undefined;

/**
 * Returns the directory of this run's databases, below DUCTILE_BENCH_DIR or the system's temporary
 * directory. It must be on a disk, or a commit would cost nothing.
 */
export async function workDirectory(): Promise<string> {
  made ??= make(process.env['DUCTILE_BENCH_DIR'] ?? tmpdir());
  return await made;
}

/** Creates an empty directory inside it. */
export async function emptyDirectory(name: string): Promise<string> {
  return await emptyIn(await workDirectory(), name);
}

/** Creates an empty directory in memory, for the row without the cost of commits. */
export async function memoryDirectory(name: string): Promise<string> {
  madeInMemory ??= makeDirectory(MEMORY);
  return await emptyIn(await madeInMemory, name);
}

export async function hasMemory(): Promise<true | string> {
  return (await isInMemory(MEMORY).catch(() => false)) || `${MEMORY} is not kept in memory here`;
}

async function emptyIn(parent: string, name: string): Promise<string> {
  const directory = join(parent, name);
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory);
  return directory;
}

async function isInMemory(directory: string): Promise<boolean> {
  return (await statfs(directory)).type === TMPFS_MAGIC;
}

async function make(parent: string): Promise<string> {
  if (await isInMemory(parent)) {
    throw new Error(`${parent} is kept in memory; name a directory on a disk in DUCTILE_BENCH_DIR`);
  }
  return await makeDirectory(parent);
}

async function makeDirectory(parent: string): Promise<string> {
  const directory = await mkdtemp(join(parent, 'ductile-bench-'));
  // PostgreSQL does not run as root; its own user must be able to enter.
  await chmod(directory, 0o755);
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  return directory;
}
