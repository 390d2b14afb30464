import { readFileSync, realpathSync } from 'node:fs';
import { relative } from 'node:path';
import { DuctileError } from '../base/errors.ts';
import { writeFileAtomic } from '../base/files.ts';
import { hasExact } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import { keyText, parseDocument } from './document.ts';
import type { Path } from './document.ts';
import { valueAt } from './address.ts';
import { readConfig } from './load.ts';
import type { LoadOptions, Reading } from './load.ts';
import { writeManifest } from './lock.ts';
import { patchText, removeKey } from './patch.ts';
import { configInvalid, sentence } from './problem.ts';
import type { Problem } from './problem.ts';

/** A change of one key, worked out and checked, and not written yet. */
export interface Edit {
  readonly file: string;
  readonly key: string;
  readonly text: string;
  /** What would be in force. */
  readonly reading: Reading;
}

/** Sets a key in the file that has it, comments and order kept; a result that is invalid is refused. */
export function planEdit(reading: Reading, path: Path, value: unknown, options: LoadOptions): Edit {
  const { file, inside } = findHome(reading, path);
  const text = patchText(readFileSync(file, 'utf8'), inside, value);
  if (text === undefined) {
    const message = `${keyText(path)} has no such place in ${file}`;
    throw misplaced(message, findSpelling(reading, path));
  }
  return checked(file, path, text, options);
}

/** Takes a key out of the last file that has it; what another file says of it is then in force. */
export function planRemoval(reading: Reading, path: Path, options: LoadOptions): Edit {
  if (valueAt(reading.document.value, path) === undefined) {
    throw misplaced(`${keyText(path)} is not set`);
  }
  const { file, inside } = findHome(reading, path);
  const text = removeKey(readFileSync(file, 'utf8'), inside);
  if (text === undefined) throw misplaced(`${keyText(path)} is not set in ${file}`);
  return checked(file, path, text, options);
}

function checked(file: string, path: Path, text: string, options: LoadOptions): Edit {
  const reading = readConfig({ ...options, replace: new Map([[file, text]]) });
  if (reading.config === undefined) throw configInvalid(reading.problems);
  return { file, key: keyText(path), text, reading };
}

function misplaced(message: string, spelling?: Problem): DuctileError {
  return new DuctileError('INPUT_INVALID', message, {
    place: 'key',
    hint:
      spelling === undefined
        ? 'See what is there with `ductile config show`.'
        : `Edit ${spelling.place} first: ${sentence(spelling)}.`,
  });
}

/** A key in the spelling of the original, which can be read but not changed as ours. */
function findSpelling({ translated }: Reading, [top]: Path): Problem | undefined {
  return translated.find(({ key }) => key === String(top));
}

/**
 * Writes the change, keeps what was there as `<file>.bak`, and renews the lock of that file alone. It
 * is all or nothing: when any of it fails, the file is what it was.
 */
export function applyEdit(
  { file, text }: Edit,
  before: Reading,
  options: LoadOptions,
  now: string,
) {
  const backup = `${file}.bak`;
  const old = readFileSync(file);
  // A link stays one; what it leads to is changed.
  const target = realpathSync(file);
  writeFileAtomic(backup, old);
  writeFileAtomic(target, text);
  try {
    const after = readConfig(options);
    if (after.config === undefined) throw configInvalid(after.problems);
    return { backup, locked: relock(before, after, file, now) };
  } catch (thrown) {
    writeFileAtomic(target, old);
    throw thrown;
  }
}

/**
 * Only what was changed here is accepted. A file that somebody else changed stays as unaccepted as
 * it was.
 */
function relock(before: Reading, after: Reading, file: string, now: string): boolean {
  const { manifest, found, drift } = before;
  const wasSound = !drift.some(({ problem }) => problem.place === file);
  if (manifest.state !== 'sound' || !wasSound) return false;
  const path = relative(found.directory, file);
  const hash = after.files.find((candidate) => candidate.path === file)?.hash ?? '';
  const hashes = new Map([...manifest.manifest.hashes, [path, hash]]);
  writeManifest(found.directory, { ...manifest.manifest, generatedAt: now, hashes });
  return true;
}

/** The file to write to: the last one with the key, or with most of the way to it. */
function findHome({ sources, found }: Reading, path: Path): { file: string; inside: Path } {
  for (let depth = path.length; depth > 0; depth -= 1) {
    const head = path.slice(0, depth);
    const home = sources.findLast(
      ({ document }) =>
        valueAt(document.value, head) !== undefined && !hasList(document.value, head),
    );
    if (home !== undefined) return { file: home.file, inside: path };
    const inList = findInList(sources, head, path);
    if (inList !== undefined) return inList;
  }
  return { file: found.file, inside: path };
}

/** Whether the way to a key leads through a list, whose indices change when files are merged. */
function hasList(value: unknown, path: Path): boolean {
  return path.some((_, index) => Array.isArray(valueAt(value, path.slice(0, index))));
}

/** Lists of several files are appended to each other, so an index counts on from file to file. */
function findInList(
  sources: Reading['sources'],
  head: Path,
  path: Path,
): { file: string; inside: Path } | undefined {
  const at = head.findIndex((segment) => typeof segment === 'number');
  if (at === -1) return undefined;
  let index = Number(head[at]);
  for (const { document, file } of sources) {
    const list = valueAt(document.value, head.slice(0, at));
    const length = Array.isArray(list) ? list.length : 0;
    if (index < length)
      return { file, inside: [...head.slice(0, at), index, ...path.slice(at + 1)] };
    index -= length;
  }
  return undefined;
}

/**
 * What somebody wrote on a command line, as the kind of value that it looks like: lists and maps also
 * without the quotes of JSON, as they stand in the files.
 */
export function parseValue(text: string): unknown {
  if (/^(true|false|null|-?(0|[1-9]\d*)(\.\d+)?)$/.test(text) || /^["[{]/.test(text)) {
    try {
      const value = parseJson(text);
      if (hasExact(value)) throw notExact(text);
      return value;
    } catch (thrown) {
      if (thrown instanceof DuctileError) throw thrown;
      return /^[[{]/.test(text) ? parseFlow(text) : text;
    }
  }
  return text;
}

function notExact(text: string): DuctileError {
  const message = `${text} has a number with more digits than a number can keep`;
  return new DuctileError('INPUT_INVALID', message, { hint: 'Put the number in quotes.' });
}

/** A text in braces, such as `{payload.name}`, is a map to YAML, but one without any value. */
function parseFlow(text: string): unknown {
  const { value, problems } = parseDocument(text, '');
  const isMeant = problems.length === 0 && !hasNull(value);
  return isMeant && typeof value === 'object' ? value : text;
}

function hasNull(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return value === null;
  return Object.values(value).some(hasNull);
}
