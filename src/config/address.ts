import { DuctileError } from '../base/errors.ts';
import { isObject } from '../base/json.ts';
import type { KeyPath } from './document.ts';

/** Short names for entries of a map, and of lists whose entries have a name. */
const entities: Readonly<Record<string, readonly KeyPath[]>> = {
  plugin: [['plugins']],
  token: [['api', 'auth', 'tokens'], ['tokens']],
};

/**
 * Parses the address of a key: `service.max_workers`, `plugins.echo.schedules.0.every`,
 * `plugins["a.b"].enabled`, or an entity such as `plugin:echo.enabled`; `plugin:*` addresses all of
 * them. `value` is the current configuration. It resolves names with dots: `plugin:a.b.enabled`
 * finds the plugin `a.b`.
 */
export function parseAddress(text: string, value: unknown): KeyPath {
  const entity = /^([a-z]+):(.+)$/s.exec(text);
  if (entity === null) return resolve([], splitAddress(text), value);
  const [, type = '', rest = ''] = entity;
  const bases = Object.hasOwn(entities, type) ? entities[type] : undefined;
  const [base, ...others] = bases ?? [];
  if (bases === undefined || base === undefined) {
    const hint = `Use ${Object.keys(entities).join(' or ')}.`;
    throw refuse(text, `names the unknown entity ${type}`, hint);
  }
  if (rest === '*') return bases.find((one) => hasEntries(valueAt(value, one))) ?? base;
  if (others.length > 0) return resolveNamed(bases, value, text, rest);
  const inside = valueAt(value, base);
  return [...base, ...resolve(base, splitAddress(rest), inside).slice(base.length)];
}

/** Returns undefined when nothing is at the path. */
export function valueAt(value: unknown, path: KeyPath): unknown {
  let current = value;
  for (const segment of path) {
    if (Array.isArray(current)) current = current[Number(segment)];
    else if (isObject(current) && Object.hasOwn(current, segment)) {
      current = current[String(segment)];
    } else return undefined;
  }
  return current;
}

function resolveNamed(
  bases: readonly KeyPath[],
  value: unknown,
  address: string,
  rest: string,
): KeyPath {
  for (const base of bases) {
    const list = valueAt(value, base);
    const names = Array.isArray(list) ? list.map(nameIn) : [];
    const index = names.findIndex((name) => name !== '' && `${rest}.`.startsWith(`${name}.`));
    if (index === -1) continue;
    const more = rest.slice((names[index] ?? '').length + 1);
    const path = [...base, index];
    return more === '' ? path : resolve(path, splitAddress(more), valueAt(value, path));
  }
  throw refuse(address, 'does not exist', 'Run `ductile config show` to list the names.');
}

function nameIn(entry: unknown): string {
  const name = isObject(entry) ? entry['name'] : undefined;
  return typeof name === 'string' ? name : '';
}

function hasEntries(value: unknown): boolean {
  return isObject(value) || (Array.isArray(value) && value.length > 0);
}

/** Joins words where a key of the map has dots, and turns indices of lists into numbers. */
function resolve(base: KeyPath, words: readonly string[], value: unknown): KeyPath {
  const path: PropertyKey[] = [...base];
  let current = value;
  for (let at = 0; at < words.length;) {
    let length = 1;
    if (isObject(current)) {
      const keys = new Set(Object.keys(current));
      for (let more = words.length - at; more > 1; more -= 1) {
        if (!keys.has(words.slice(at, at + more).join('.'))) continue;
        length = more;
        break;
      }
    }
    const word = words.slice(at, at + length).join('.');
    const isIndex = Array.isArray(current) && /^\d+$/.test(word);
    path.push(isIndex ? Number(word) : word);
    current = valueAt(current, [isIndex ? Number(word) : word]);
    at += length;
  }
  return path;
}

function splitAddress(text: string): string[] {
  const words: string[] = [];
  const pattern = /\.?(?:\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]|([^.[\]]+))/gy;
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    words.push(match[1] ?? match[2] ?? match[3] ?? '');
    end = match.index + match[0].length;
  }
  if (words.length > 0 && end === text.length) return words;
  throw refuse(
    text,
    'is not a valid key',
    'Write it like service.max_workers or plugin:echo.enabled.',
  );
}

function refuse(text: string, message: string, hint: string): DuctileError {
  return new DuctileError('INPUT_INVALID', `${text} ${message}`, { place: 'path', hint });
}
