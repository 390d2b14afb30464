import { access, mkdir, readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findCommand, runText } from './program.ts';

export type NativeName = 'limit' | 'plug' | 'fsync';

/** Source directory of Debian's Go driver for SQLite. */
const GO_ROOT = '/usr/share/gocode';
const GO_DRIVER = `${GO_ROOT}/src/github.com/mattn/go-sqlite3`;

export async function canBuildNative(): Promise<true | string> {
  if (process.platform !== 'linux') return 'written for Linux';
  return (await findCommand('cc')) === undefined ? 'there is no C compiler (cc)' : true;
}

export async function buildNative(name: NativeName): Promise<string> {
  return await build(`native/${name}.c`, name, async (source, target) => {
    // A statically linked plugin loads no libraries.
    const flags = name === 'plug' ? ['-O2', '-static'] : ['-O2'];
    await runText('cc', [...flags, '-o', target, source]);
  });
}

export async function canBuildGo(): Promise<true | string> {
  if ((await findCommand('go')) === undefined) return 'Go is not installed';
  return await access(GO_DRIVER).then(
    () => true,
    () => 'golang-github-mattn-go-sqlite3-dev is not installed',
  );
}

export async function buildGo(): Promise<string> {
  return await build('go/durable.go', 'durable', async (source, target) => {
    await runText('go', ['build', '-tags', 'libsqlite3', '-o', target, source], {
      env: { GO111MODULE: 'off', GOPATH: GO_ROOT },
    });
  });
}

/** Returns the program's path, and builds it if a file beside its source is newer. */
async function build(
  source: string,
  name: string,
  compile: (source: string, target: string) => Promise<void>,
): Promise<string> {
  const from = fileURLToPath(new URL(source, import.meta.url));
  const target = fileURLToPath(new URL(`../build/bench/${name}`, import.meta.url));
  const built = await stat(target).catch(() => undefined);
  if (built === undefined || built.mtimeMs < (await newestIn(dirname(from)))) {
    await mkdir(dirname(target), { recursive: true });
    await compile(from, target);
  }
  return target;
}

async function newestIn(directory: string): Promise<number> {
  const files = await readdir(directory);
  const stats = await Promise.all(files.map(async (file) => await stat(join(directory, file))));
  return Math.max(...stats.map(({ mtimeMs }) => mtimeMs));
}
