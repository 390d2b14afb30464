#!/usr/bin/env node
/** Watches single files. Changes are detected by content, which is read only if the file's stamp changed. */
import { createHash } from 'node:crypto';
import { constants, open, type FileHandle } from 'node:fs/promises';
import { isAbsolute, normalize } from 'node:path';
import {
  Failure,
  isObject,
  messageOf,
  runPlugin,
  type Answer,
  type Fields,
  type Json,
  type JsonObject,
  type Log,
  type PluginEvent,
  type Request,
} from '../../sdk/typescript/ductile-plugin.ts';

const PATHS_MAX = 500;
const SETTLED_MS = 2000;

/** State of a file; `stamp` changes whenever the content may have changed. */
interface FileState {
  readonly size: number;
  readonly sha256: string;
  readonly mtime: string;
  readonly stamp: string;
}

/** Recorded state of a path: a file, no file, or nothing yet. */
type RecordedState = FileState | null | undefined;

await runPlugin({ poll, health });

async function poll(request: Request): Promise<Answer> {
  const { paths, emitInitial } = readSettings(request.config);
  const signal = AbortSignal.timeout(request.msLeft(3_600_000));
  const before = isObject(request.state['files']) ? request.state['files'] : {};
  const after: JsonObject = {};
  const events: PluginEvent[] = [];
  const logs: Log[] = [];
  for (const path of paths) {
    const old = toRecorded(before[path]);
    const seen = await look(path, old, signal, logs);
    if (seen === undefined) {
      if (old !== undefined) after[path] = old === null ? null : { ...old };
      continue;
    }
    after[path] = seen === null ? null : { ...seen };
    const event = toEvent(path, old === undefined && emitInitial ? null : old, seen);
    if (event !== undefined) events.push(event);
  }
  const isChanged = JSON.stringify(after) !== JSON.stringify(before);
  return {
    result: `${events.length} of ${paths.length} files changed`,
    events,
    ...(isChanged ? { state_updates: { files: after } } : {}),
    logs,
  };
}

async function health(request: Request): Promise<Answer> {
  const { paths } = readSettings(request.config);
  const missing: string[] = [];
  for (const path of paths) {
    const file = await openFile(path);
    if (file === null) missing.push(path);
    await file?.close();
  }
  const note = missing.length === 0 ? '' : `; not there: ${missing.join(', ')}`;
  return { result: `${paths.length - missing.length} of ${paths.length} files can be read${note}` };
}

interface Settings {
  readonly paths: string[];
  readonly emitInitial: boolean;
}

function readSettings(config: Fields): Settings {
  return { paths: readPaths(config), emitInitial: config.flag('emit_initial') };
}

/** Sorted and without duplicates, so that the same files always give the same snapshot. */
function readPaths(config: Fields): string[] {
  const paths = config.texts('paths');
  if (paths.length === 0 || paths.length > PATHS_MAX) {
    throw config.refuse('paths', `must name from 1 to ${PATHS_MAX} files`);
  }
  const wrong = paths.find((path) => !isAbsolute(path) || path.includes('\0'));
  if (wrong !== undefined)
    throw config.refuse('paths', `must be absolute paths; '${wrong}' is not`);
  return [...new Set(paths.map((path) => normalize(path)))].toSorted();
}

/** Reads the current state: null if there is no file, undefined if this can't be determined now. */
async function look(
  path: string,
  old: RecordedState,
  signal: AbortSignal,
  logs: Log[],
): Promise<RecordedState> {
  let file: FileHandle | null;
  try {
    file = await openFile(path);
  } catch (thrown) {
    logs.push({ level: 'warn', message: messageOf(thrown) });
    return undefined;
  }
  if (file === null) return null;
  try {
    const stamp = await stampOf(file);
    if (old?.stamp === stamp) return old;
    const { size, sha256 } = await read(file, signal);
    const { mtime, mtimeMs } = await file.stat();
    if ((await stampOf(file)) !== stamp) {
      logs.push({ level: 'info', message: `${path} is being written; it is looked at next time` });
      return undefined;
    }
    // A write within the same clock tick as this read wouldn't change the stamp. So a file that was
    // just written is read again next time.
    const isSettled = Date.now() - mtimeMs > SETTLED_MS;
    return { size, sha256, mtime: mtime.toISOString(), stamp: isSettled ? stamp : '' };
  } finally {
    await file.close();
  }
}

/** Opens without blocking, because the path may be a pipe without a writer. */
async function openFile(path: string): Promise<FileHandle | null> {
  let file: FileHandle;
  try {
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (thrown) {
    const code = thrown instanceof Error && 'code' in thrown ? thrown.code : undefined;
    if (code === 'ENOENT' || code === 'ENOTDIR') return null;
    throw new Failure(`config.paths: cannot read ${path}: ${String(code)}`, true);
  }
  if ((await file.stat()).isFile()) return file;
  await file.close();
  throw new Failure(`config.paths: ${path} is not a regular file`, true);
}

async function stampOf(file: FileHandle): Promise<string> {
  const { ino, size, mtimeNs, ctimeNs } = await file.stat({ bigint: true });
  return `${ino}:${size}:${mtimeNs}:${ctimeNs}`;
}

async function read(
  file: FileHandle,
  signal: AbortSignal,
): Promise<{ size: number; sha256: string }> {
  const hash = createHash('sha256');
  let size = 0;
  try {
    for await (const chunk of file.createReadStream({ autoClose: false, start: 0, signal })) {
      hash.update(chunk);
      size += chunk.length;
    }
  } catch (thrown) {
    if (!signal.aborted) throw thrown;
    throw new Failure('config.paths: too much to read before the deadline', true);
  }
  return { size, sha256: hash.digest('hex') };
}

function toEvent(
  path: string,
  old: RecordedState,
  seen: FileState | null,
): PluginEvent | undefined {
  if (old === undefined || old?.sha256 === seen?.sha256) return undefined;
  const kind = old === null ? 'created' : seen === null ? 'deleted' : 'changed';
  const file = seen ?? old;
  if (file === null) return undefined;
  const { size, sha256, mtime } = file;
  const digest = createHash('sha256').update(`${path}\0${sha256}\0${mtime}`).digest('hex');
  return {
    type: `file-watch.${kind}`,
    payload: { path, size, sha256, mtime },
    dedupe_key: `file-watch.${kind}:${digest.slice(0, 32)}`,
  };
}

function toRecorded(value: Json | undefined): RecordedState {
  if (value === null) return null;
  if (!isObject(value)) return undefined;
  const { size, sha256, mtime, stamp } = value;
  const isSound =
    typeof size === 'number' &&
    typeof sha256 === 'string' &&
    typeof mtime === 'string' &&
    typeof stamp === 'string';
  return isSound ? { size, sha256, mtime, stamp } : undefined;
}
