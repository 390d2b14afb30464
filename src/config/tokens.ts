import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { blake3 } from '../base/blake3.ts';
import { isObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import type { ApiToken, ConfigFile } from './config.ts';
import type { KeyPath } from './document.ts';
import { resolvePath } from '../base/files.ts';
import type { ParsedConfig } from './schema.ts';

export interface TokenContext {
  readonly placeOf: (path: KeyPath) => string;
  readonly report: (path: KeyPath, message: string, hint?: string) => void;
  /** Reads the scopes in the file that the key at the path names, and reports its problems. */
  readonly readScopes: (file: string, hash: string | undefined, path: KeyPath) => readonly string[];
}

/** Collects the tokens of all three forms. */
export function buildTokens(parsed: ParsedConfig, context: TokenContext): ApiToken[] {
  const { report, placeOf, readScopes } = context;
  const { api_key: key, tokens: inline } = parsed.api.auth;
  const names = new Set<string>();
  const digests = new Set<string>();
  const tokens: ApiToken[] = [];
  const isNew = (name: string, path: KeyPath): boolean => {
    const isKnown = names.has(name);
    if (isKnown) report(path, `is the second token with the name ${name}`);
    names.add(name);
    return !isKnown;
  };
  const add = (name: string, secret: string, scopes: readonly string[], path: KeyPath): void => {
    const digest = hashToken(secret);
    if (isNew(name, path) && digests.has(digest)) {
      report(path, 'is the same token as another one', ONE_EACH);
    }
    digests.add(digest);
    tokens.push({ name, digest, scopes: [...new Set(scopes)], place: placeOf(path) });
  };
  if (key !== undefined) add('api_key', key, ['*'], ['api', 'auth', 'api_key']);
  for (const [index, { name = `token-${index + 1}`, token, scopes }] of inline.entries()) {
    add(name, token, scopes, ['api', 'auth', 'tokens', index]);
  }
  const secrets = new Set(parsed.webhooks.endpoints.map(({ secret_ref: name }) => name));
  const noScopes = `is required${describeUnknownSecrets(parsed)}`;
  for (const [index, entry] of parsed.tokens.entries()) {
    const path = ['tokens', index];
    const file = entry.scopes_file;
    if (file === undefined && entry.scopes === undefined) {
      // The secret of a webhook needs no scopes.
      if (!secrets.has(entry.name)) report([...path, 'scopes'], noScopes, SCOPES);
      isNew(entry.name, path);
      continue;
    }
    const fromFile =
      file === undefined ? [] : readScopes(file, entry.scopes_hash, [...path, 'scopes_file']);
    add(entry.name, entry.key, entry.scopes ?? fromFile, path);
  }
  if (parsed.api.enabled && tokens.length === 0) {
    const hint = 'Add api.auth.tokens with a name, a token and scopes.';
    report(['api', 'auth', 'tokens'], 'must not be empty while api.enabled is true', hint);
  }
  return tokens;
}

/** Names webhooks whose secret isn't an entry here: the name may be misspelled. */
function describeUnknownSecrets({ tokens, webhooks }: ParsedConfig): string {
  const names = new Set(tokens.map(({ name }) => name));
  const unknown = webhooks.endpoints.filter(({ secret_ref: name }) => !names.has(name));
  if (unknown.length === 0) return '';
  const used = unknown.map(({ path, secret_ref: name }) => `${path} uses ${name}`).join(', ');
  return `, unless the token is the secret_ref of a webhook: ${used}`;
}

/** Hashes a token: the digest recognizes it and reveals nothing. */
export function hashToken(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

const SCOPES =
  'Set scopes or scopes_file. Only a token that a secret_ref of a webhook names needs neither.';
const ONE_EACH = 'Give each caller its own token, so that the log shows who called.';

interface ScopeFiles {
  /** The files that were read. */
  readonly files: readonly ConfigFile[];
  readonly read: TokenContext['readScopes'];
}

interface ScopeFileOptions {
  readonly directory: string;
  readonly home: string;
  readonly report: (path: KeyPath, message: string, hint?: string) => void;
  readonly warn: (path: KeyPath, message: string, hint: string) => void;
}

/**
 * Reads files of the form `{"scopes": ["jobs:ro"]}`, or with the list alone. They always have the
 * high tier.
 */
export function makeScopeFiles({ directory, home, report, warn }: ScopeFileOptions): ScopeFiles {
  const files = new Map<string, ConfigFile>();
  const read = (
    written: string,
    expected: string | undefined,
    path: KeyPath,
  ): readonly string[] => {
    const file = resolvePath(written, directory, home);
    let bytes: Buffer;
    try {
      const { size } = statSync(file);
      if (size > limits.configBytesMax) throw new Error(`${size} bytes`);
      bytes = readFileSync(file);
    } catch {
      report(path, `names ${file}, which cannot be read`);
      return [];
    }
    const hash = blake3(bytes);
    files.set(file, { path: file, tier: 'high', hash });
    if (expected !== undefined && expected !== `blake3:${hash}`) {
      const hint = `Review the changed file. If it is right, set scopes_hash to blake3:${hash}.`;
      report([...path.slice(0, -1), 'scopes_hash'], `is not the hash of ${file}`, hint);
      return [];
    }
    const { scopes, isBare } = parseScopes(bytes.toString('utf8'));
    if (scopes === undefined) report(path, `names ${file}, which is not {"scopes": ["…"]}`);
    else if (isBare) warn(path, `names ${file}, which is a bare list`, 'Write {"scopes": ["…"]}.');
    return scopes ?? [];
  };
  return {
    get files() {
      return [...files.values()];
    },
    read,
  };
}

interface ParsedScopes {
  /** Undefined for a file of neither form. */
  readonly scopes: readonly string[] | undefined;
  /** True for a list without `{"scopes": …}`, which the original project writes, too. */
  readonly isBare: boolean;
}

function parseScopes(text: string): ParsedScopes {
  try {
    const parsed: unknown = parseJson(text);
    const isBare = Array.isArray(parsed);
    const list: unknown = isObject(parsed) ? parsed['scopes'] : parsed;
    if (!Array.isArray(list)) return { scopes: undefined, isBare };
    const texts = list.filter((scope): scope is string => typeof scope === 'string');
    const isRight = texts.length === list.length && !texts.includes('');
    return { scopes: isRight ? texts : undefined, isBare };
  } catch {
    return { scopes: undefined, isBare: false };
  }
}
