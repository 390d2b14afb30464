import { isObject } from '../../base/json.ts';
import { toVisibleText } from '../../base/text.ts';
import type { Cut } from './digest.ts';

export interface CutListing {
  /** The value that the paths of the cuts lead into. */
  readonly value: unknown;
  /** Characters that the descriptions may take; at least one is always listed. */
  readonly room: number;
  readonly handleOf: (path: readonly number[]) => string | undefined;
}

export interface DescribedCuts {
  readonly listed: readonly Readonly<Record<string, unknown>>[];
  /** How many are not listed. */
  readonly left: number;
}

/** Describes the outermost cuts first, because everything else is within them. */
export function describeCuts(cuts: readonly Cut[], listing: CutListing): DescribedCuts {
  const { value, room, handleOf } = listing;
  const ordered = cuts.toSorted((a, b) => a.path.length - b.path.length);
  const entries = ordered.map(({ path, ...cut }) => {
    const handle = handleOf(path);
    return {
      at: toText(namesOf(value, path)),
      ...cut,
      ...(handle === undefined ? {} : { handle }),
    };
  });
  return takeFitting(entries, room);
}

/**
 * Describes cuts for a caller that can't ask for each part. The same field of many rows is described
 * once, with a `*` for what differs, and with how many places it was cut in.
 */
export function groupCuts(cuts: readonly Cut[], value: unknown, room: number): DescribedCuts {
  const named = cuts.map(({ path, ...cut }) => ({ ...cut, names: namesOf(value, path) }));
  const groups = Map.groupBy(named, ({ kind, names }) => {
    const [first = ''] = names;
    return [kind, names.length, first, names.at(-1)].join('\n');
  });
  const entries = [...groups.values()].map((group) => {
    const [{ names, ...cut }] = group as [(typeof group)[0]];
    if (group.length === 1) return { at: toText(names), ...cut };
    const isSame = (name: string, at: number): boolean =>
      group.every((other) => other.names[at] === name);
    const common = names.map((name, at) => (isSame(name, at) ? name : '*'));
    const longest = Math.max(...group.map(({ total }) => total));
    const { kind, shown } = cut;
    return { at: toText(common), kind, places: group.length, longest, shown };
  });
  return takeFitting(entries, room);
}

function takeFitting(
  entries: readonly Readonly<Record<string, unknown>>[],
  room: number,
): DescribedCuts {
  let chars = 0;
  const end = entries.findIndex((entry, index) => {
    chars += JSON.stringify(entry).length;
    return index > 0 && chars > room;
  });
  const listed = end === -1 ? entries : entries.slice(0, end);
  return { listed, left: entries.length - listed.length };
}

const NAME_CHARS_MAX = 40;
const AT_CHARS_MAX = 120;

/** For people and models: `/jobs/3/result`. */
function toText(names: readonly string[]): string {
  const text = names.map((name) => `/${toVisibleText(name).slice(0, NAME_CHARS_MAX)}`).join('');
  if (text.length > AT_CHARS_MAX) return `${text.slice(0, AT_CHARS_MAX)}…`;
  return text === '' ? '/' : text;
}

function namesOf(value: unknown, path: readonly number[]): string[] {
  let inner = value;
  return path.map((index) => {
    const name = isObject(inner) ? (Object.keys(inner)[index] ?? '') : String(index);
    inner = Object.values(inner ?? {})[index];
    return name;
  });
}
