import { createHash } from 'node:crypto';
import * as z from 'zod';
import { parseCredentialRef, credentialName } from '../base/credential-ref.ts';
import { formatByteSize, formatDuration } from '../base/quantity.ts';
import { ExactNumber } from '../base/parse-json.ts';
import { toCanonicalJson, isObject, type Json, type JsonObject } from '../base/json.ts';
import { isSecretKey, isSecretName, maskText, REDACTED } from '../base/secrets.ts';
import { keyText, type KeyPath, isSecretPath } from './document.ts';
import { isByteSize, isDuration } from '../base/fields.ts';
import { unwrap } from './issues.ts';
import { configSchema, type ParsedConfig } from './schema.ts';
import { hashToken } from './tokens.ts';

/**
 * Shows the configuration without secrets: keys as written, `${VAR}` not replaced, and the defaults
 * of all other keys.
 */
export function showEffective(written: unknown, parsed: ParsedConfig): JsonObject {
  const shown = fill(configSchema, written, parsed, []);
  return isObject(shown) ? shown : {};
}

/** Removes secrets from keys as written, without defaults. */
export function redact(written: unknown, path: KeyPath = []): Json {
  return replaceSecrets(written, path, () => REDACTED, maskDefaults);
}

/** Makes a digest of all active values. Two digests reveal nothing about a secret. */
export function fingerprintConfig(parsed: ParsedConfig, more: unknown): string {
  const safe = replaceSecrets(parsed, [], hashToken, (text) => text);
  return createHash('sha256')
    .update(toCanonicalJson([safe, more]))
    .digest('hex');
}

function fill(schema: z.core.$ZodType, written: unknown, parsed: unknown, path: KeyPath): Json {
  const type = unwrap(schema);
  const given = written === null ? undefined : written;
  if (type instanceof z.ZodObject) {
    const shape = type.shape as Readonly<Record<string, z.core.$ZodType>>;
    return fillKeys(Object.entries(shape), given, parsed, path);
  }
  if (type instanceof z.ZodRecord && path.length === 1 && isObject(given)) {
    const keys = Object.keys(given).map((key) => [key, type.valueType] as const);
    return fillKeys(keys, given, parsed, path);
  }
  if (given !== undefined) return redact(given, path);
  if (typeof parsed === 'number' && isDuration(schema)) return formatDuration(parsed);
  if (typeof parsed === 'number' && isByteSize(schema)) return formatByteSize(parsed);
  return redact(parsed, path);
}

function fillKeys(
  keys: readonly (readonly [string, z.core.$ZodType])[],
  written: unknown,
  parsed: unknown,
  path: KeyPath,
): JsonObject {
  const [before, after] = [isObject(written) ? written : {}, isObject(parsed) ? parsed : {}];
  const filled: JsonObject = {};
  for (const [key, schema] of keys) {
    const isKnown = before[key] !== undefined || after[key] !== undefined;
    if (isKnown) filled[key] = fill(schema, before[key], after[key], [...path, key]);
  }
  return filled;
}

/** The name of a credential isn't a secret. */
function isReference(text: string): boolean {
  return credentialName.test(parseCredentialRef(text) ?? '');
}

/** A template that takes a value from the payload or from another step. */
const template = /^\{[\w.[\]-]+\}$/;

function isShown(text: string, path: KeyPath): boolean {
  // A variable names the secret and doesn't contain it.
  if (/^\$\{\w+\}$/.test(text)) return true;
  if (path[0] === 'pipelines' && template.test(text)) return true;
  return path[0] === 'plugins' && isReference(text);
}

/** Masks the defaults of secret variables. */
function maskDefaults(text: string): string {
  return maskText(text).replaceAll(/\$\{(\w+):-[^{}]+\}/g, (whole, name: string) =>
    isSecretName(name) ? `\${${name}:-${REDACTED}}` : whole,
  );
}

function replaceSecrets(
  value: unknown,
  path: KeyPath,
  replace: (secret: string) => string,
  other: (text: string) => string,
): Json {
  if (typeof value === 'string') {
    if (isShown(value, path)) return value;
    return isSecretPath(path) ? replace(value) : other(value);
  }
  if (typeof value === 'number' || value instanceof ExactNumber) {
    // `max_tokens: 500` isn't a secret, `password: 1234` is.
    const name = path.findLast((segment) => typeof segment === 'string') ?? '';
    return isSecretKey(name) && isSecretPath(path) ? replace(String(value)) : value;
  }
  if (Array.isArray(value)) {
    return value.map((inner, index) => replaceSecrets(inner, [...path, index], replace, other));
  }
  if (!isObject(value)) return typeof value === 'boolean' ? value : null;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key,
      replaceSecrets(inner, [...path, key], replace, other),
    ]),
  );
}

/** A key with different values in two configurations; undefined means not set. */
export interface KeyChange {
  readonly key: string;
  readonly before: string | undefined;
  readonly after: string | undefined;
}

/** Compares key by key. Secrets are compared but not shown. */
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
  path: KeyPath = [],
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
