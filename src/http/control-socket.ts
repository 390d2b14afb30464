import { createHash, randomBytes } from 'node:crypto';
import { lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';

/** Process that listens: the only one of a SQLite ledger, or one of several on PostgreSQL. */
export interface SocketOwner {
  readonly stateDir: string;
  /** Only with PostgreSQL. */
  readonly processId?: string;
  readonly tempDir: string;
  readonly uid: number;
}

/** Describes this process and its state directory. */
export function describeSocketOwner(stateDir: string): Omit<SocketOwner, 'processId'> {
  return { stateDir, tempDir: tmpdir(), uid: process.getuid?.() ?? NO_UID };
}

/** Windows has no user ids. */
const NO_UID = -1;
const TAG_LENGTH = 8;
const DIRECTORY_MODE = 0o700;

/**
 * Computes the path of a process's control socket; the service and the command line use the same
 * rule. If the state directory's path is too long for a socket, the socket is in a private directory
 * below the temporary one. Its name is then a hash of the state directory.
 */
export function socketPath(owner: SocketOwner): string {
  const { directory, stem } = socketLocation(owner);
  // The end of an id is random; its beginning is the time, which processes may share.
  const tag = owner.processId?.replaceAll(/[^\w]/g, '').slice(-TAG_LENGTH);
  return join(directory, tag === undefined ? `${stem}.sock` : `${stem}-${tag}.sock`);
}

/** Finds a socket on which a live process listens; undefined if none runs here. */
export async function findSocket(
  owner: Omit<SocketOwner, 'processId'>,
): Promise<string | undefined> {
  const { directory, stem } = socketLocation(owner);
  for (const path of listSockets(directory, stem)) {
    if (await hasListener(path)) return path;
  }
  return undefined;
}

/** Reads the key that proves that the caller can read the state directory. */
export function readControlKey(path: string, { stateDir }: KeyOwner): string | undefined {
  try {
    return readFileSync(keyPath(path, stateDir), 'utf8').trim();
  } catch {
    // The file is missing or not readable for us; the socket decides then.
    return undefined;
  }
}

/** Writes a new key for each process that listens. */
export function writeControlKey(path: string, { stateDir }: KeyOwner): string {
  const key = randomBytes(32).toString('hex');
  const file = keyPath(path, stateDir);
  mkdirSync(stateDir, { recursive: true, mode: DIRECTORY_MODE });
  rmSync(file, { force: true });
  writeFileSync(file, `${key}\n`, { mode: 0o600, flag: 'wx' });
  return key;
}

export function removeControlKey(path: string, { stateDir }: KeyOwner): void {
  rmSync(keyPath(path, stateDir), { force: true });
  rmSync(configPath(path, stateDir), { force: true });
}

/**
 * Records the configuration of the process behind a socket, so that a caller with another one can
 * be warned.
 */
export function writeSocketConfig(path: string, { stateDir }: KeyOwner, configFile: string): void {
  const file = configPath(path, stateDir);
  rmSync(file, { force: true });
  writeFileSync(file, `${configFile}\n`, { mode: 0o600, flag: 'wx' });
}

/** The configuration of the process behind a socket; undefined if it isn't known. */
export function readSocketConfig(path: string, { stateDir }: KeyOwner): string | undefined {
  try {
    return readFileSync(configPath(path, stateDir), 'utf8').trim();
  } catch {
    return undefined;
  }
}

type KeyOwner = Pick<SocketOwner, 'stateDir'>;

/** Always in the state directory, wherever the socket is: plugins can't read that directory. */
function keyPath(path: string, stateDir: string): string {
  return join(stateDir, `${basename(path)}.key`);
}

function configPath(path: string, stateDir: string): string {
  return join(stateDir, `${basename(path)}.config`);
}

/** Removes dead sockets and refuses if a live process listens on this one. */
export async function clearSocket(path: string, owner: SocketOwner): Promise<void> {
  const { stateDir, uid } = owner;
  if (dirname(path) !== stateDir) ensurePrivate(dirname(path), uid);
  // With PostgreSQL the socket may be the first file in the state directory.
  else mkdirSync(stateDir, { recursive: true, mode: DIRECTORY_MODE });
  await removeDead(owner);
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return;
  if (!stats.isSocket()) {
    throw new DuctileError('LISTEN_FAILED', 'a file exists at the path of the control socket', {
      place: path,
      hint: 'Move or delete that file.',
    });
  }
  throw new DuctileError('INSTANCE_LOCKED', 'another process listens on the control socket', {
    place: path,
  });
}

/** A crashed process leaves its socket behind. */
async function removeDead(owner: SocketOwner): Promise<void> {
  const { directory, stem } = socketLocation(owner);
  for (const path of listSockets(directory, stem)) {
    // Another starting process may have removed it.
    const isSocket = lstatSync(path, { throwIfNoEntry: false })?.isSocket() ?? false;
    if (!isSocket || (await hasListener(path))) continue;
    rmSync(path, { force: true });
    removeControlKey(path, owner);
  }
}

function socketLocation({ stateDir, tempDir, uid }: SocketOwner): {
  directory: string;
  stem: string;
} {
  const longest = join(stateDir, `ductile-${'x'.repeat(TAG_LENGTH)}.sock`);
  if (Buffer.byteLength(longest) <= limits.socketPathBytesMax) {
    return { directory: stateDir, stem: 'ductile' };
  }
  const hash = createHash('sha256').update(stateDir).digest('hex').slice(0, 16);
  return { directory: join(tempDir, `ductile-${uid}`), stem: hash };
}

function listSockets(directory: string, stem: string): string[] {
  try {
    return readdirSync(directory)
      .filter((name) => name.startsWith(stem) && /^(-\w+)?\.sock$/.test(name.slice(stem.length)))
      .map((name) => join(directory, name));
  } catch {
    return [];
  }
}

/**
 * Any user can write to the temporary directory, so refuse a directory that isn't ours or isn't
 * private.
 */
function ensurePrivate(directory: string, uid: number): void {
  mkdirSync(directory, { recursive: true, mode: DIRECTORY_MODE });
  const stats = lstatSync(directory);
  if (stats.isDirectory() && stats.uid === uid && (stats.mode & 0o077) === 0) return;
  throw new DuctileError('LISTEN_FAILED', 'the directory of the control socket is not private', {
    place: directory,
    hint: `Remove ${basename(directory)}, or use a state directory with a shorter path.`,
  });
}

/** Only these errors prove that no process listens. */
const silence = new Set(['ECONNREFUSED', 'ENOENT', 'ENOTSOCK']);

function hasListener(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', (error: NodeJS.ErrnoException) => {
      resolve(!silence.has(error.code ?? ''));
    });
  });
}
