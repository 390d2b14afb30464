/** Two versions of the program; only the newer one has the last migration. */
import { spawnSync } from 'node:child_process';
import { cp, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { schemaVersion } from '../../../src/ledger/migrate.ts';
import { root } from '../../support/crash/server.ts';
import { makeDirectory } from '../../support/directory.ts';

export interface Programs {
  readonly older: string;
  readonly newer: string;
  /** The commit of the older one; undefined if it is the current program, and the newer is synthetic. */
  readonly commit?: string;
}

const ARCHIVE_BYTES_MAX = 2 ** 29;
/** The files of the program besides its bundles. */
const linked = ['build', 'packages', 'plugins', 'sdk'];
/** A realistic migration: tables that every process writes get a column, under load. */
const extra = `{version:${schemaVersion + 1},name:"next",statements:(d)=>["signals","processes","job_queue"].map(
  (name)=>\`alter table \${d.table(name)} add column next_word \${d.types.text}\`)}`;

/** The last program with another schema, and the current one; empty if the history is too short. */
export async function findPrograms(): Promise<Programs[]> {
  const commit = await findOlder();
  return commit === undefined ? [] : [{ older: await buildCommit(commit), newer: root, commit }];
}

/** The current program, and a copy of it that is a migration ahead. */
export async function makeUpPrograms(): Promise<Programs> {
  const newer = await makeDirectory();
  await cp(join(root, 'bin'), join(newer, 'bin'), { recursive: true });
  await mkdir(join(newer, 'dist'));
  for (const name of linked) await symlink(join(root, name), join(newer, name));
  const manifest = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as object;
  await writeFile(join(newer, 'package.json'), JSON.stringify({ ...manifest, version: '999.0.0' }));
  for (const file of await readdir(join(root, 'dist'), { withFileTypes: true })) {
    const target = join(newer, 'dist', file.name);
    const source = join(root, 'dist', file.name);
    if (!file.name.endsWith('.cjs')) await symlink(source, target);
    else await writeFile(target, addMigration(await readFile(source, 'utf8')));
  }
  return { older: root, newer };
}

function addMigration(bundle: string): string {
  return bundle.replace(/\bmigrations=\[([\w$,]+)\]/, (_, known: string) => {
    return `migrations=[${known},${extra}]`;
  });
}

/** The last commit before the newest migration came; in a shallow clone there may be none. */
async function findOlder(): Promise<string | undefined> {
  const folder = 'src/ledger/migrations';
  const files = (await readdir(join(root, folder))).filter((name) => /^\d/.test(name));
  const added = git(
    'log',
    '--diff-filter=A',
    '--format=%H',
    '-1',
    '--',
    `${folder}/${files.sort().at(-1)}`,
  );
  if (added === undefined) return undefined;
  const before = git('rev-parse', '--verify', '--quiet', added === '' ? 'HEAD' : `${added}^`);
  return before === '' ? undefined : before;
}

function git(...args: readonly string[]): string | undefined {
  const { status, stdout } = spawnSync('git', args, { cwd: root, encoding: 'utf8' });
  return status === 0 ? stdout.trim() : undefined;
}

/** Bundles the sources of the commit with its own tool and the current packages. */
async function buildCommit(commit: string): Promise<string> {
  const directory = await makeDirectory();
  const archive = spawnSync('git', ['archive', commit], {
    cwd: root,
    maxBuffer: ARCHIVE_BYTES_MAX,
  });
  run('tar', ['-x', '-C', directory], directory, archive.stdout);
  await symlink(join(root, 'node_modules'), join(directory, 'node_modules'));
  run(process.execPath, ['tools/build.ts'], directory);
  return directory;
}

function run(program: string, args: readonly string[], cwd: string, input?: Buffer): void {
  const { status, stderr } = spawnSync(program, args, { cwd, input, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${program} ${args.join(' ')} failed: ${stderr}`);
}
