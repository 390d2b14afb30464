import { toCanonicalJson, isObject } from '../base/json.ts';
import type { JsonOutput } from '../operation/define.ts';

/** What became of a list since it was last seen. */
interface ListChange {
  readonly added: readonly unknown[];
  readonly changed: readonly unknown[];
  /** What told the entries apart that are there no more. */
  readonly gone: readonly string[];
  readonly same: number;
}

export interface Difference {
  /** By field: the rows of a list that are not as they were, or the whole of anything else. */
  readonly changed: Readonly<Record<string, unknown>>;
  /** Fields that are there no more. */
  readonly gone: readonly string[];
}

/** What is not as it was; nothing is told of what is. */
export function difference(before: JsonOutput, after: JsonOutput): Difference {
  const changed: Record<string, unknown> = {};
  for (const [field, value] of Object.entries(after)) {
    const old = before[field];
    if (isSame(old, value)) continue;
    changed[field] = compareLists(old, value) ?? value;
  }
  return { changed, gone: Object.keys(before).filter((field) => !(field in after)) };
}

type Row = Readonly<Record<string, unknown>>;

function compareLists(before: unknown, after: unknown): ListChange | undefined {
  if (!isRows(before) || !isRows(after)) return undefined;
  const identify = identityOf(before, after);
  if (identify === undefined) return undefined;
  const old = new Map(before.map((row) => [identify(row), row]));
  const now = new Set(after.map(identify));
  const known = after.filter((row) => old.has(identify(row)));
  const changed = known.filter((row) => !isSame(old.get(identify(row)), row));
  return {
    added: after.filter((row) => !old.has(identify(row))),
    changed,
    gone: [...old.keys()].filter((id) => !now.has(id)),
    same: known.length - changed.length,
  };
}

/** Rows begin with what names them: one field, or as many as are needed to tell them all apart. */
function identityOf(before: readonly Row[], after: readonly Row[]) {
  const names = Object.keys(after[0] ?? before[0] ?? {}).slice(0, NAMES_MAX);
  for (let count = 1; count <= names.length; count += 1) {
    const used = names.slice(0, count);
    const identify = (row: Row): string => used.map((name) => String(row[name])).join(' ');
    if ([before, after].every((rows) => new Set(rows.map(identify)).size === rows.length)) {
      return identify;
    }
  }
  return undefined;
}

const NAMES_MAX = 3;

function isRows(value: unknown): value is readonly Row[] {
  return Array.isArray(value) && value.every(isObject);
}

function isSame(a: unknown, b: unknown): boolean {
  return a === b || (a !== undefined && toCanonicalJson(a) === toCanonicalJson(b));
}
