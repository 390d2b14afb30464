import { randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, rmSync, statSync, type Stats } from 'node:fs';
import { dirname, join } from 'node:path';
import { DuctileError } from '../base/errors.ts';
import { tryFileLock } from '../base/file-lock.ts';
import { PRIVATE_DIRECTORY, writeFileAtomic } from '../base/files.ts';
import { KEY_BYTES, KEY_VARIABLES, makeMasterKey, type MasterKey } from '../base/seal.ts';

/** The keys that seal and open what is secret at rest. */
export interface KeyRing {
  /** The one that seals; made when there is none. */
  newest(): MasterKey;
  find(id: string): MasterKey | undefined;
  all(): readonly MasterKey[];
  /** A new one that seals from now on, unless there is one that was made for the same reason. */
  renew(reason: string): MasterKey | undefined;
  /** Something is sealed with a key that is not here: a new one would only hide that. */
  refuseFirst(): void;
  readonly place: string;
}

export interface KeyRingOptions {
  /** The state directory. */
  readonly directory: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

const KEY_FILE = 'credential.key';

/**
 * Keys of the environment seal before those of the file, which still open. The file has a line for
 * each key, the newest first; it is read again when it has changed, because others may share it.
 */
export function makeKeyRing({ directory, environment }: KeyRingOptions): KeyRing {
  const path = join(directory, KEY_FILE);
  const given = KEY_VARIABLES.flatMap((name) => readVariable(name, environment[name] ?? ''));
  let file: KeyFile = noFile;
  let isRefused = false;
  const ofFile = (): readonly FileKey[] => {
    const found = statSync(path, { throwIfNoEntry: false });
    if (found === undefined) return (file = noFile).keys;
    const stamp = `${found.ino} ${found.mtimeMs} ${found.size} ${found.mode}`;
    if (stamp !== file.stamp) file = { stamp, keys: readKeyFile(path, found) };
    return file.keys;
  };
  const all = (): readonly MasterKey[] => [...given, ...ofFile().map(({ key }) => key)];
  return {
    place: given.length > 0 ? KEY_VARIABLES.join(', ') : path,
    all,
    find: (id) => all().find((key) => key.id === id),
    newest() {
      const [first] = all();
      if (first !== undefined) return first;
      if (isRefused) {
        const message = 'there are secrets on the ledger, but no key to open them with';
        throw new DuctileError('CREDENTIAL_KEY_MISSING', message, { place: path });
      }
      createKeyFile(path);
      return mustHave(ofFile()[0]?.key, path);
    },
    refuseFirst: () => void (isRefused = true),
    renew(reason) {
      if (given.length > 0) return undefined;
      const [first] = ofFile();
      if (first === undefined) return this.newest();
      if (first.reason === reason) return first.key;
      addToKeyFile(path, reason);
      return mustHave(ofFile()[0]?.key, path);
    },
  };
}

interface FileKey {
  readonly key: MasterKey;
  /** What is written behind it. */
  readonly reason: string;
}

interface KeyFile {
  readonly stamp: string;
  readonly keys: readonly FileKey[];
}

const noFile: KeyFile = { stamp: '', keys: [] };

function readVariable(name: string, value: string): MasterKey[] {
  const parts = value.split(/[\s,]+/).filter((part) => part !== '');
  return parts.map((part) => makeMasterKey(decodeKey(part, name)));
}

function readKeyFile(path: string, { mode, uid }: Stats): FileKey[] {
  if ((mode & OTHERS) !== 0) {
    throw new DuctileError('CREDENTIAL_KEY_INVALID', 'others than its owner may read the key', {
      place: path,
      hint: `Say \`chmod 600 ${path}\`; if somebody may have read it, rotate the key.`,
    });
  }
  const me = process.getuid?.() ?? uid;
  if (uid !== me && me !== 0) {
    throw new DuctileError('CREDENTIAL_KEY_INVALID', 'the key belongs to somebody else', {
      place: path,
    });
  }
  const lines = readFileSync(path, 'utf8').split('\n');
  const keys = lines.flatMap((line, index): FileKey[] => {
    const [text = '', ...reason] = line.trim().split(/\s+/);
    if (text === '' || text.startsWith('#')) return [];
    const key = makeMasterKey(decodeKey(text, `${path}:${index + 1}`));
    return [{ key, reason: reason.join(' ') }];
  });
  if (keys.length > 0) return keys;
  throw new DuctileError('CREDENTIAL_KEY_INVALID', 'there is no key in it', { place: path });
}

/** The group and all others. */
const OTHERS = 0o077;

/** The text is not shown: it is the secret that keeps all others. */
function decodeKey(text: string, place: string): Buffer {
  const bytes = /^[0-9a-f]{64}$/i.test(text)
    ? Buffer.from(text, 'hex')
    : Buffer.from(text, 'base64');
  if (bytes.length === KEY_BYTES && /^[A-Za-z0-9+/_-]+=*$/.test(text)) return bytes;
  throw new DuctileError('CREDENTIAL_KEY_INVALID', 'is not a key of 32 bytes', {
    place,
    hint: 'Make one with `openssl rand -base64 32`.',
  });
}

/** Of two who make the first one at once, the second finds that of the first. */
function createKeyFile(path: string): void {
  const draft = `${path}.${randomBytes(6).toString('hex')}`;
  mkdirSync(dirname(path), { recursive: true, mode: PRIVATE_DIRECTORY });
  writeFileAtomic(draft, `${makeLine('first')}\n`);
  try {
    linkSync(draft, path);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}

function addToKeyFile(path: string, reason: string): void {
  const lock = tryFileLock(`${path}.lock`);
  if (lock === undefined) {
    throw new DuctileError('BUSY', 'somebody else changes the keys just now', { place: path });
  }
  try {
    writeFileAtomic(path, `${makeLine(reason)}\n${readFileSync(path, 'utf8')}`);
  } finally {
    lock.release();
  }
}

function makeLine(reason: string): string {
  return `${randomBytes(KEY_BYTES).toString('base64url')} ${reason}`;
}

function mustHave(key: MasterKey | undefined, path: string): MasterKey {
  if (key !== undefined) return key;
  throw new DuctileError('CREDENTIAL_KEY_INVALID', 'there is no key in it', { place: path });
}
