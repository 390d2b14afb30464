/**
 * A disk after a power cut: everything that was synced, and a part of the rest. Names are data of
 * their directory: unsynced names exist up to some moment, because file systems keep their order. A
 * file without a name is gone, even if its content was synced.
 */
import { dirname } from 'node:path';
import { between, pick, type Random } from '../../support/crash/random.ts';
import type { DiskEntry } from './disk-journal.ts';

/**
 * The operations on a file or a directory, in order, and the number that is certainly on the disk.
 */
interface Story<T> {
  readonly changes: T[];
  synced: number;
}

type Change = Pick<DiskEntry, 'offset' | 'data'> & { readonly kind: 'written' | 'truncated' };
type StoredFile = Story<Change>;

type Naming =
  | { readonly kind: 'named'; readonly name: string; readonly file: StoredFile | undefined }
  | { readonly kind: 'renamed'; readonly name: string; readonly to: string }
  | { readonly kind: 'unlinked'; readonly name: string };

export interface Disk {
  readonly directories: ReadonlyMap<string, Story<Naming>>;
}

/** Files by their path; directories have no content. */
export type Image = ReadonlyMap<string, Buffer | undefined>;

/** The part of the unsynced data that reaches the disk. */
export const ways = [
  'nothing',
  'everything',
  'beginning',
  'writes',
  'sectors',
  'torn',
  'noise',
] as const;
export type Way = (typeof ways)[number];

const SECTOR = 512;
const shares = [0.1, 0.5, 0.9] as const;

/** The state of the disk after so many entries; a sync that `isDone` denies had no effect. */
export function replay(
  entries: readonly DiskEntry[],
  count: number,
  isDone: (entry: DiskEntry) => boolean = () => true,
): Disk {
  const files = new Map<number, StoredFile>();
  const directories = new Map<string, Story<Naming>>();
  const underWay = new Map<number, () => void>();
  const name = (naming: Naming): void => void directoryOf(naming.name).changes.push(naming);
  const directoryOf = (path: string): Story<Naming> => ensure(directories, dirname(path));
  for (const entry of entries.slice(0, count)) {
    const { kind, file, name: path, offset } = entry;
    switch (kind) {
      case 'opened':
        if (offset === 1 || !files.has(file)) {
          files.set(file, emptyStory());
          name({ kind: 'named', name: path, file: ensure(files, file) });
        }
        break;
      case 'written':
      case 'truncated':
        ensure(files, file).changes.push({ ...entry, kind });
        break;
      case 'directoryMade':
        name({ kind: 'named', name: path, file: undefined });
        break;
      case 'renamed':
        name({ kind, name: path, to: entry.data.toString() });
        break;
      case 'unlinked':
        name({ kind, name: path });
        break;
      case 'syncBegan':
        underWay.set(
          offset,
          beginSync(entry.isDirectory ? ensure(directories, path) : files.get(file)),
        );
        break;
      case 'syncEnded':
        if (isDone(entry)) underWay.get(offset)?.();
        break;
      case 'notFollowed':
        break;
    }
  }
  return { directories };
}

/** Operations before the start of a sync are on the disk when it is over. */
function beginSync(story: Story<unknown> | undefined): () => void {
  if (story === undefined) return () => undefined;
  const count = story.changes.length;
  return () => void (story.synced = Math.max(story.synced, count));
}

function emptyStory<T>(): Story<T> {
  return { changes: [], synced: 0 };
}

function ensure<K, T>(stories: Map<K, Story<T>>, key: K): Story<T> {
  let story = stories.get(key);
  if (story === undefined) stories.set(key, (story = emptyStory<T>()));
  return story;
}

/** A possible disk after the power is back. */
export function cutPower({ directories }: Disk, root: string, way: Way, random: Random): Image {
  const image = new Map<string, Buffer | undefined>();
  const visit = (directory: string): void => {
    for (const [path, file] of namesIn(directories.get(directory), way, random)) {
      image.set(path, file === undefined ? undefined : contentOf(file, way, random));
      if (file === undefined) visit(path);
    }
  };
  visit(root);
  return image;
}

function namesIn(story: Story<Naming> | undefined, way: Way, random: Random) {
  const names = new Map<string, StoredFile | undefined>();
  if (story === undefined) return names;
  for (const naming of story.changes.slice(0, beginningOf(story, way, random))) {
    if (naming.kind === 'named') names.set(naming.name, naming.file);
    else {
      if (naming.kind === 'renamed' && names.has(naming.name))
        names.set(naming.to, names.get(naming.name));
      names.delete(naming.name);
    }
  }
  return names;
}

function beginningOf({ changes, synced }: Story<unknown>, way: Way, random: Random): number {
  if (way === 'nothing') return synced;
  return way === 'everything' ? changes.length : between(random, synced, changes.length);
}

function contentOf(file: StoredFile, way: Way, random: Random): Buffer {
  const { changes, synced } = file;
  const content = makeContent(changes);
  for (const change of changes.slice(0, synced)) content.apply(change);
  const sure = content.size();
  const share = pick(shares, random);
  const end = way === 'beginning' ? beginningOf(file, way, random) : changes.length;
  for (const change of way === 'nothing' ? [] : changes.slice(synced, end)) {
    const isWhole = way === 'everything' || way === 'beginning';
    if (isWhole || change.kind === 'truncated' || way === 'writes') {
      if (isWhole || random() < share) content.apply(change);
      continue;
    }
    for (const sector of sectorsOf(change)) {
      if (random() < share) content.apply(sector);
      else if (way === 'torn') content.apply(tear(sector, random));
      // A file may be longer already than what has been written into it.
      else if (way === 'noise' && sector.offset >= sure) content.apply(garble(sector, random));
    }
  }
  return content.bytes();
}

function makeContent(changes: readonly Change[]) {
  const longest = Math.max(0, ...changes.map(({ offset, data }) => offset + data.length));
  const bytes = Buffer.alloc(longest);
  let size = 0;
  return {
    apply({ kind, offset, data }: Change): void {
      if (kind === 'written') {
        data.copy(bytes, offset);
        size = Math.max(size, offset + data.length);
      } else {
        if (offset < size) bytes.fill(0, offset, size);
        size = offset;
      }
    },
    size: () => size,
    bytes: () => bytes.subarray(0, size),
  };
}

function* sectorsOf(change: Change): Generator<Change> {
  const { offset, data } = change;
  for (let from = offset; from < offset + data.length;) {
    const to = Math.min(offset + data.length, (Math.floor(from / SECTOR) + 1) * SECTOR);
    yield { ...change, offset: from, data: data.subarray(from - offset, to - offset) };
    from = to;
  }
}

function tear(sector: Change, random: Random): Change {
  return { ...sector, data: sector.data.subarray(0, between(random, 0, sector.data.length)) };
}

function garble(sector: Change, random: Random): Change {
  return { ...sector, data: Buffer.from(sector.data.map(() => between(random, 0, 255))) };
}
