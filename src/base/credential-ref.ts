import { isObject, type Json } from './json.ts';

/** What a credential may be called. */
export const credentialName = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;

const PREFIX = 'credential:';

/** The credential that a text of a plugin's configuration stands for; undefined for plain text. */
export function parseCredentialRef(text: string): string | undefined {
  return text.startsWith(PREFIX) ? text.slice(PREFIX.length) : undefined;
}

/** The text that stands for it. */
export function formatCredentialRef(name: string): string {
  return `${PREFIX}${name}`;
}

/** What stands in the place of its value wherever something is kept or shown. */
export function formatCredentialMask(name: string): string {
  return `[${PREFIX}${name}]`;
}

export interface CredentialUse {
  readonly name: string;
  /** The way to it, such as `['headers', 'authorization']`. */
  readonly path: readonly (string | number)[];
}

/** Every credential that a configuration asks for, and where. */
export function findCredentials(
  value: Json,
  path: readonly (string | number)[] = [],
): CredentialUse[] {
  if (typeof value === 'string') {
    const name = parseCredentialRef(value);
    return name === undefined ? [] : [{ name, path }];
  }
  if (Array.isArray(value)) {
    return value.flatMap((inner, index) => findCredentials(inner, [...path, index]));
  }
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([key, inner]) => findCredentials(inner, [...path, key]));
}

/** The same configuration with the values in it. */
export function fillCredentials<T extends Json>(value: T, valueOf: (name: string) => string): T;
export function fillCredentials(value: Json, valueOf: (name: string) => string): Json {
  if (typeof value === 'string') {
    const name = parseCredentialRef(value);
    return name === undefined ? value : valueOf(name);
  }
  if (Array.isArray(value)) return value.map((inner) => fillCredentials(inner, valueOf));
  if (!isObject(value)) return value;
  const entries = Object.entries(value).map(([key, inner]) => [
    key,
    fillCredentials(inner, valueOf),
  ]);
  return Object.fromEntries(entries) as Json;
}
