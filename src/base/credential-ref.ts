import { isObject, type Json } from './json.ts';

export const credentialName = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;

const PREFIX = 'credential:';

/** Returns the name of the credential that a text in a plugin's configuration refers to; undefined for plain text. */
export function parseCredentialRef(text: string): string | undefined {
  return text.startsWith(PREFIX) ? text.slice(PREFIX.length) : undefined;
}

export function formatCredentialRef(name: string): string {
  return `${PREFIX}${name}`;
}

/** Returns the text that replaces the credential's value wherever something is stored or shown. */
export function formatCredentialMask(name: string): string {
  return `[${PREFIX}${name}]`;
}

interface CredentialUse {
  readonly name: string;
  /** The path of the value in the configuration, such as `['headers', 'authorization']`. */
  readonly path: readonly (string | number)[];
}

/** Finds every reference to a credential in a configuration. */
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

/** Returns the configuration with the values of its credentials. */
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
