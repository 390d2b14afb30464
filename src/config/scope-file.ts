import { readFileSync, statSync } from 'node:fs';
import { blake3 } from '../base/blake3.ts';
import { isObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import type { ConfigFile } from './config.ts';
import type { Path } from './document.ts';
import { resolvePath } from './paths.ts';
import type { TokenContext } from './tokens.ts';

export interface ScopeFiles {
  /** Those that were read. */
  readonly files: readonly ConfigFile[];
  readonly read: TokenContext['readScopes'];
}

interface ScopeFileOptions {
  readonly directory: string;
  readonly home: string;
  readonly report: (path: Path, message: string, hint?: string) => void;
  readonly warn: (path: Path, message: string, hint: string) => void;
}

/**
 * Reads files of the form `{"scopes": ["jobs:ro"]}`, or with the list alone. They are of the high tier,
 * whatever they are called.
 */
export function makeScopeFiles({ directory, home, report, warn }: ScopeFileOptions): ScopeFiles {
  const files = new Map<string, ConfigFile>();
  const read = (written: string, expected: string | undefined, path: Path): readonly string[] => {
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
      const hint = `Look at what changed in the file. If it is right, set scopes_hash to blake3:${hash}.`;
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
  /** Undefined if the file has neither form. */
  readonly scopes: readonly string[] | undefined;
  /** The original also writes the list alone. */
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
