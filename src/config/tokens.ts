import { createHash } from 'node:crypto';
import type { ApiToken } from './config.ts';
import type { Path } from './document.ts';
import type { ParsedConfig } from './schema.ts';

export interface TokenContext {
  readonly placeOf: (path: Path) => string;
  readonly report: (path: Path, message: string, hint?: string) => void;
  /** The scopes in the file that the key at the path names; what is wrong with it is reported. */
  readonly readScopes: (file: string, hash: string | undefined, path: Path) => readonly string[];
}

/** All tokens of the configuration, whichever of the three forms they are written in. */
export function buildTokens(parsed: ParsedConfig, context: TokenContext): ApiToken[] {
  const { report, placeOf, readScopes } = context;
  const { api_key: key, tokens: inline } = parsed.api.auth;
  const names = new Set<string>();
  const digests = new Set<string>();
  const tokens: ApiToken[] = [];
  const add = (name: string, secret: string, scopes: readonly string[], path: Path): void => {
    const digest = digestOf(secret);
    if (names.has(name)) report(path, `is the second token that is called ${name}`);
    else if (digests.has(digest)) report(path, 'is the same token as another one', ONE_EACH);
    names.add(name);
    digests.add(digest);
    tokens.push({ name, digest, scopes: [...new Set(scopes)], place: placeOf(path) });
  };
  if (key !== undefined) add('api_key', key, ['*'], ['api', 'auth', 'api_key']);
  for (const [index, { name = `token-${index + 1}`, token, scopes }] of inline.entries()) {
    add(name, token, scopes, ['api', 'auth', 'tokens', index]);
  }
  for (const [index, entry] of parsed.tokens.entries()) {
    const path = ['tokens', index];
    const file = entry.scopes_file;
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

/** What is kept of a token: enough to know it again, useless to whoever reads it. */
export function digestOf(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

const ONE_EACH = 'Give each its own, so that the log can tell who it was.';
