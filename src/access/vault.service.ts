import { randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, rmSync, statSync, type Stats } from 'node:fs';
import { dirname, join } from 'node:path';
import { DuctileError, messageOf } from '../base/errors.ts';
import { tryFileLock } from '../base/file-lock.ts';
import { PRIVATE_DIRECTORY, writeFileAtomic } from '../base/files.ts';
import {
  fingerprintSecret,
  KEY_BYTES,
  KEY_VARIABLES,
  makeMasterKey,
  sealText,
  unsealText,
  type MasterKey,
} from '../base/seal.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import type { Vault } from './vault.ts';

const ROOT_LEDGER = 'root';

/** Returns the name of a tenant's ledger, which its sealed texts are bound to. */
export function tenantLedger(slug: string): string {
  return `tenant ${slug}`;
}

/** Forbids creating a first key if the ledger has secrets: their key was lost, and must be restored. */
export async function guardFirstKey(
  vault: Vault,
  ledger: LedgerSubset<'seals.count'>,
): Promise<void> {
  if (vault.keyIds.length === 0 && (await ledger.seals.count()).length > 0) vault.forbidFirstKey();
}

/** Lists the known keys; none if the key file can't be used. */
export function readKeyIds(vault: Pick<Vault, 'keyIds'>): readonly string[] {
  try {
    return vault.keyIds;
  } catch (error) {
    if (error instanceof DuctileError && error.code === 'CREDENTIAL_KEY_INVALID') return [];
    throw error;
  }
}

/** True if a repeated request has the secret whose fingerprint is recorded, or both have none. */
export function isSameSecret(
  secret: string | undefined,
  purpose: string,
  print: string | undefined,
  vault: Vault,
): boolean {
  if (secret === undefined || print === undefined) return secret === print;
  return vault.hasFingerprint(secret, purpose, print);
}

/** `ledger` is a name that isn't stored in the ledger, so that writing to the ledger can't change it. */
export function makeVault(ring: KeyRing, ledger: string = ROOT_LEDGER): Vault {
  return {
    get keyId() {
      return ring.newest().id;
    },
    seal: (clear, row) => sealText(clear, { ledger, row }, ring.newest()),
    open(sealed, purpose) {
      const key = requireKey(ring, sealed.keyId);
      try {
        return unsealText(sealed, { ledger, row: purpose }, key);
      } catch (error) {
        const message = `the sealed value of ${purpose} cannot be opened: ${messageOf(error)}`;
        const hint = 'The value was changed, or belongs to another object. Set it again.';
        throw new DuctileError('CREDENTIAL_KEY_INVALID', message, { hint, cause: error });
      }
    },
    fingerprint: (value, purpose) => fingerprintSecret(value, purpose, ring.newest()),
    hasFingerprint(value, purpose, print) {
      const key = ring.find(print.slice(0, print.indexOf(':')));
      return key !== undefined && fingerprintSecret(value, purpose, key) === print;
    },
    renew: (reason) => ring.renew(reason)?.id,
    forbidFirstKey: () => ring.forbidFirstKey(),
    forLedger: (name) => makeVault(ring, name),
    place: ring.place,
    get keyIds() {
      return ring.all().map(({ id }) => id);
    },
  };
}

function requireKey(ring: KeyRing, keyId: string): MasterKey {
  const key = ring.find(keyId);
  if (key !== undefined) return key;
  throw new DuctileError('CREDENTIAL_KEY_MISSING', `the key ${keyId} is missing here`, {
    place: ring.place,
  });
}

/** The keys that seal and open secrets at rest. */
interface KeyRing {
  /** Returns the key that seals; creates one if there is none. */
  newest(): MasterKey;
  find(id: string): MasterKey | undefined;
  all(): readonly MasterKey[];
  /** Creates a new sealing key, once per reason; undefined if keys come from the environment. */
  renew(reason: string): MasterKey | undefined;
  /** Disables creating a first key, because existing secrets were sealed with a missing one. */
  forbidFirstKey(): void;
  /** Describes the source of the keys. */
  readonly place: string;
}

interface KeyRingOptions {
  /** The state directory. */
  readonly directory: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

const KEY_FILE = 'credential.key';

/**
 * Keys of the environment seal before those of the file, which can still open. The file has one key
 * per line, the newest first. It is read again after a change, because processes may share it.
 */
export function makeKeyRing({ directory, environment }: KeyRingOptions): KeyRing {
  const path = join(directory, KEY_FILE);
  const fromVariables = KEY_VARIABLES.flatMap((name) =>
    readVariable(name, environment[name] ?? ''),
  );
  let file: KeyFile = noFile;
  let isFirstForbidden = false;
  const readKeys = (): readonly FileKey[] => {
    const found = statSync(path, { throwIfNoEntry: false });
    if (found === undefined) return (file = noFile).keys;
    const stamp = `${found.ino} ${found.mtimeMs} ${found.size} ${found.mode}`;
    if (stamp !== file.stamp) file = { stamp, keys: readKeyFile(path, found) };
    return file.keys;
  };
  const all = (): readonly MasterKey[] => [...fromVariables, ...readKeys().map(({ key }) => key)];
  return {
    place: fromVariables.length > 0 ? KEY_VARIABLES.join(', ') : path,
    all,
    find: (id) => all().find((key) => key.id === id),
    newest() {
      const [first] = all();
      if (first !== undefined) return first;
      if (isFirstForbidden) {
        const message = 'the database has sealed secrets, but the key that opens them is missing';
        throw new DuctileError('CREDENTIAL_KEY_MISSING', message, { place: path });
      }
      createKeyFile(path);
      return requireFileKey(readKeys()[0]?.key, path);
    },
    forbidFirstKey: () => void (isFirstForbidden = true),
    renew(reason) {
      if (fromVariables.length > 0) return undefined;
      const [first] = readKeys();
      if (first === undefined) return this.newest();
      if (first.reason === reason) return first.key;
      addToKeyFile(path, reason);
      return requireFileKey(readKeys()[0]?.key, path);
    },
  };
}

interface FileKey {
  readonly key: MasterKey;
  /** The text after the key on its line. */
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
    throw new DuctileError('CREDENTIAL_KEY_INVALID', 'the key file is readable by other users', {
      place: path,
      hint: `Run \`chmod 600 ${path}\`. If another user may have read the key, rotate it.`,
    });
  }
  const me = process.getuid?.() ?? uid;
  if (uid !== me && me !== 0) {
    throw new DuctileError('CREDENTIAL_KEY_INVALID', 'the key file belongs to another user', {
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
  throw new DuctileError('CREDENTIAL_KEY_INVALID', 'the key file contains no key', { place: path });
}

/** Any right of the group or of other users. */
const OTHERS = 0o077;

/** The error never shows the text, which may be a key. */
function decodeKey(text: string, place: string): Buffer {
  const bytes = /^[0-9a-f]{64}$/i.test(text)
    ? Buffer.from(text, 'hex')
    : Buffer.from(text, 'base64');
  if (bytes.length === KEY_BYTES && /^[A-Za-z0-9+/_-]+=*$/.test(text)) return bytes;
  throw new DuctileError('CREDENTIAL_KEY_INVALID', 'the value is not a key of 32 bytes', {
    place,
    hint: 'Create a key with `openssl rand -base64 32`.',
  });
}

/** Links a finished file, so that two processes that start at once use the same first key. */
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
    throw new DuctileError('BUSY', 'another process is changing the keys', { place: path });
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

function requireFileKey(key: MasterKey | undefined, path: string): MasterKey {
  if (key !== undefined) return key;
  throw new DuctileError('CREDENTIAL_KEY_INVALID', 'the key file contains no key', { place: path });
}
