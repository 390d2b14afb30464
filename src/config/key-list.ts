import { isObject } from '../base/json.ts';
import { keyText } from './document.ts';
import type { Path } from './document.ts';
import { redact } from './effective.ts';

/** One key that is not the same in two configurations; undefined where it is not set. */
export interface KeyChange {
  readonly key: string;
  readonly before: string | undefined;
  readonly after: string | undefined;
}

/** What differs, key by key. Secrets are compared, and not shown. */
export function compareKeys(before: unknown, after: unknown): KeyChange[] {
  const [old, now] = [listLeaves(before), listLeaves(after)];
  return [...new Set([...old.keys(), ...now.keys()])].toSorted().flatMap((key) => {
    const [was, is] = [old.get(key), now.get(key)];
    if (was?.exact === is?.exact) return [];
    return [{ key, before: was?.shown, after: is?.shown }];
  });
}

interface Leaf {
  readonly exact: string;
  readonly shown: string;
}

function listLeaves(
  value: unknown,
  path: Path = [],
  leaves: Map<string, Leaf> = new Map(),
): Map<string, Leaf> {
  if (Array.isArray(value)) {
    for (const [index, inner] of value.entries()) listLeaves(inner, [...path, index], leaves);
  } else if (isObject(value)) {
    for (const [key, inner] of Object.entries(value)) listLeaves(inner, [...path, key], leaves);
  } else {
    const shown = JSON.stringify(redact(value, path));
    leaves.set(keyText(path), { exact: JSON.stringify(value) ?? '', shown });
  }
  return leaves;
}
