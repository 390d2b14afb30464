import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { toTimestamp, type Timestamp } from '../../base/clock.ts';
import { DuctileError, messageOf } from '../../base/errors.ts';
import { tryFileLock, type FileLock } from '../../base/file-lock.ts';
import { makeDirectories } from '../../base/files.ts';

/** The process that holds the lock of a state directory, according to its note. */
export interface LockHolder {
  readonly pid: number;
  /** Null for a process of an older program. */
  readonly configFile: string | null;
  readonly startedAt: Timestamp | null;
}

const NOTE = 'ductile.lock';

/**
 * Claims a state directory for one process. `ductile.lock` names the process for users. The lock itself is
 * on a file beside it, so that reading the note can't disturb it. It needs no age and no heartbeat: the
 * kernel releases it when the process dies.
 */
export function claimInstanceLock(directory: string, configFile?: string): FileLock {
  makeDirectories(directory);
  const note = join(directory, NOTE);
  const lock = tryLock(join(directory, '.ductile.lock'));
  if (lock === undefined) throw makeLockedError(readLockHolder(directory), note);
  writeFileSync(note, formatHolder(configFile), { mode: 0o600 });
  return {
    release() {
      rmSync(note, { force: true });
      lock.release();
    },
  };
}

/** Formats one `name value` per line. The first line is only the process id, as in older versions. */
function formatHolder(configFile: string | undefined): string {
  const config = configFile === undefined ? [] : [`config ${configFile}`];
  return `${[process.pid, `started ${toTimestamp(Date.now())}`, ...config].join('\n')}\n`;
}

/** Reads the note of the process that holds the lock; undefined without a note. A crash leaves an old one. */
export function readLockHolder(directory: string): LockHolder | undefined {
  try {
    const [first = '', ...lines] = readFileSync(join(directory, NOTE), 'utf8').split('\n');
    const pid = Number(first.trim());
    if (!Number.isSafeInteger(pid) || pid <= 0) return undefined;
    const valueOf = (name: string): string | null =>
      lines.find((line) => line.startsWith(`${name} `))?.slice(name.length + 1) ?? null;
    return { pid, configFile: valueOf('config'), startedAt: valueOf('started') };
  } catch {
    return undefined;
  }
}

function tryLock(path: string): FileLock | undefined {
  try {
    return tryFileLock(path);
  } catch (error) {
    const message = `the state directory cannot be locked: ${messageOf(error)}`;
    const hint = 'Remove the file at this path, or make its directory writable.';
    throw new DuctileError('LEDGER_UNAVAILABLE', message, { place: path, hint, cause: error });
  }
}

function makeLockedError(holder: LockHolder | undefined, note: string): DuctileError {
  if (holder === undefined) {
    const message = 'another Ductile process holds the lock of this state directory';
    return new DuctileError('INSTANCE_LOCKED', message, { place: note, details: { pid: null } });
  }
  const { pid, configFile, startedAt } = holder;
  const since = startedAt === null ? '' : `, since ${startedAt}`;
  const config = configFile === null ? '' : `, with the configuration ${configFile}`;
  const message = `process ${pid} holds the lock of this state directory${since}${config}`;
  const use = configFile === null ? 'use its socket' : `use it with \`--config ${configFile}\``;
  return new DuctileError('INSTANCE_LOCKED', message, {
    place: note,
    hint: `Stop it with \`kill ${pid}\`, or ${use}.`,
    details: { pid, config: configFile, started_at: startedAt },
  });
}
