/** A hostile plugin: it tries everything that a confined process must not be able to do. */
import { chmodSync, lstatSync, readdirSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';

/** The targets, by the paths and numbers that an attacker would have to guess. */
export interface AttackTargets {
  /** Directories of others that plugins need: readable, and never writable. */
  readonly readOnly: readonly string[];
  /** Files that aren't even readable. */
  readonly secrets: readonly string[];
  /** Their directories, and those of other attempts. */
  readonly closed: readonly string[];
  /** Sockets of the same user, by path or, with a leading `@`, by an abstract name. */
  readonly sockets: readonly string[];
  /** Processes of others. */
  readonly pids: readonly number[];
  /** Ports on the host's loopback, which only a separate network hides. */
  readonly ports: readonly number[];
}

/** Reads `targets.json` beside itself, and reports what it could do. */
const program = `#!/usr/bin/env node
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
fs.readFileSync(0);
const targets = JSON.parse(fs.readFileSync(__dirname + '/targets.json', 'utf8'));
const done = [];
const attack = (name, act) => { try { if (act() !== false) done.push(name); } catch {} };
const runs = (...argv) => spawnSync(argv[0], argv.slice(1)).status === 0;
const call = (number, ...args) => runs('python3', '-c',
  'import ctypes,sys; l=ctypes.CDLL(None); sys.exit(l.syscall(' + [number, ...args].join(',') + ') < 0)');
for (const path of targets.readOnly) {
  attack('plant in ' + path, () => fs.writeFileSync(path + '/planted', 'x'));
  attack('append in ' + path, () => fs.appendFileSync(path + '/file', 'x'));
  attack('rename in ' + path, () => fs.renameSync(path + '/file', path + '/moved'));
  attack('chmod ' + path, () => fs.chmodSync(path, 0o777));
  attack('utimes ' + path, () => fs.utimesSync(path, 1, 1));
}
for (const path of targets.secrets) {
  attack('read ' + path, () => fs.readFileSync(path));
  attack('write ' + path, () => fs.appendFileSync(path, 'x'));
  attack('chmod ' + path, () => fs.chmodSync(path, 0o666));
  attack('chown ' + path, () => fs.chownSync(path, process.getuid(), process.getgid()));
  attack('utimes ' + path, () => fs.utimesSync(path, 1, 1));
  attack('unlink ' + path, () => fs.unlinkSync(path));
}
for (const path of targets.closed) {
  attack('list ' + path, () => fs.readdirSync(path).includes('file'));
  attack('create in ' + path, () => fs.writeFileSync(path + '/planted', 'x'));
  attack('chmod ' + path, () => fs.chmodSync(path, 0o777));
  attack('chown ' + path, () => fs.chownSync(path, process.getuid(), process.getgid()));
  attack('utimes ' + path, () => fs.utimesSync(path, 1, 1));
}
for (const pid of targets.pids) {
  attack('signal ' + pid, () => process.kill(pid, 'SIGUSR1'));
  attack('environ ' + pid, () => fs.readFileSync('/proc/' + pid + '/environ'));
  attack('root ' + pid, () => fs.readdirSync(['', 'proc', pid, 'root', ''].join('/')));
  attack('memory ' + pid, () => fs.openSync('/proc/' + pid + '/mem', 'r+'));
  attack('descriptors ' + pid, () => fs.readlinkSync('/proc/' + pid + '/fd/0'));
  if (process.arch === 'x64') attack('ptrace ' + pid, () => call(101, 16, pid, 0, 0));
}
attack('make a user namespace', () => runs('unshare', '--user', 'true'));
attack('mount', () => runs('mount', '-t', 'tmpfs', 'none', '/tmp'));
if (process.arch === 'x64') {
  attack('use the keyring', () => call(250, 0, -3, 1));
  attack('load a kernel program', () => call(321, 5, 0, 0));
  attack('use io_uring', () => call(425, 1, 0));
}
attack('become root', () => process.setuid(0));
const connect = (options) => new Promise((resolve) => {
  const socket = net.connect(options);
  socket.on('connect', () => { socket.destroy(); resolve(true); });
  socket.on('error', () => resolve(false));
});
(async () => {
  for (const path of targets.sockets) {
    if (await connect({ path: path.replace(/^@/, '\\0') })) done.push('connect to ' + path);
  }
  for (const port of targets.ports) {
    if (await connect({ host: '127.0.0.1', port })) done.push('connect to port ' + port);
  }
  const result = JSON.stringify({ done, uid: process.getuid() });
  console.log(JSON.stringify({ status: 'ok', result }));
})();
`;

/** Writes the program and its targets to the directory of a plugin; returns the program's path. */
export function writeAttacker(directory: string, targets: AttackTargets): string {
  const entrypoint = join(directory, 'run');
  writeFileSync(entrypoint, program);
  chmodSync(entrypoint, 0o755);
  writeFileSync(join(directory, 'targets.json'), JSON.stringify(targets));
  return entrypoint;
}

export interface AttackResult {
  /**
   * The successful attacks. File changes may have worked on a copy in the process's own memory, so
   * the changes on the host decide (`describeTree`).
   */
  readonly done: readonly string[];
  readonly uid: number;
}

/** Parses the output of the program, or the result of its job. */
export function readAttack(result: unknown): AttackResult {
  return JSON.parse(String(result)) as AttackResult;
}

/** Lists the successful attacks, without changes of files that only the process itself may see. */
export function listReached({ done }: AttackResult): string[] {
  return done.filter(
    (name) => !/^(plant|append|rename|chmod|chown|utimes|write|unlink|create) /.test(name),
  );
}

/** Describes every file below a directory, with its mode, owner, size and time of change. */
export function describeTree(directory: string): string[] {
  const names = readdirSync(directory, { recursive: true, encoding: 'utf8' });
  return ['', ...names]
    .filter((name) => !name.endsWith('targets.json'))
    .toSorted()
    .map((name) => {
      const { mode, uid, size, mtimeMs } = lstatSync(join(directory, name));
      return `${name} ${mode.toString(8)} ${uid} ${size} ${mtimeMs}`;
    });
}

/** Starts a server that the attacker must not reach; the caller closes it. */
export function listenAt(where: string | number): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.on('error', reject);
    if (typeof where === 'number') server.listen(where, '127.0.0.1', () => resolve(server));
    else server.listen(where.replace(/^@/, '\0'), () => resolve(server));
  });
}
