import { dirname } from 'node:path';
import { readHomeDirectory } from '../base/account.ts';
import { isObject } from '../base/json.ts';
import type { StateConfig } from './config.ts';
import type { Path } from './document.ts';
import { findConfig } from './find.ts';
import { resolvePath } from './paths.ts';
import { guessState, readPlainState } from './plain-state.ts';
import type { WrittenState } from './plain-state.ts';

const keys: readonly string[] = ['path', 'url', 'dir', 'schema'] satisfies (keyof WrittenState)[];

export interface StateContext {
  readonly directory: string;
  readonly home: string;
  readonly report: (path: Path, message: string, hint?: string) => void;
}

/** Where the ledger is, from what the files say about it. */
export function buildState(parsed: WrittenState, key: string, context: StateContext): StateConfig {
  const { directory, home } = context;
  if (parsed.url === undefined) {
    const path = resolvePath(parsed.path ?? './data/state.db', directory, home);
    return { kind: 'sqlite', path, dir: dirname(path) };
  }
  const dir = resolvePath(parsed.dir ?? './data', directory, home);
  const url = URL.parse(parsed.url);
  if (url === null || !['postgres:', 'postgresql:'].includes(url.protocol)) {
    // The text is not shown: it usually holds a password.
    const form = 'Write postgres://user:password@host:5432/database, special characters as %XX.';
    context.report([key, 'url'], 'is not a PostgreSQL URL', form);
    return { kind: 'postgres', url: '', schema: '', dir };
  }
  const fromUrl = url.searchParams.get('schema') ?? undefined;
  url.searchParams.delete('schema');
  const schema = fromUrl ?? parsed.schema ?? 'ductile';
  const from = parsed.schema === undefined ? 'url' : 'schema';
  if (fromUrl !== undefined && parsed.schema !== undefined && fromUrl !== parsed.schema) {
    context.report([key, 'schema'], `says ${parsed.schema} but the url says ${fromUrl}`);
  } else if (!/^(?!pg_)[a-z_][a-z0-9_]{0,62}$/.test(schema)) {
    const rule = 'Use lowercase letters, digits and _, at most 63, not starting with pg_.';
    context.report([key, from], `names the schema ${JSON.stringify(schema)}`, rule);
  }
  return { kind: 'postgres', url: url.href, schema, dir };
}

/**
 * Where the ledger of a configuration is, when that is plain to see. The rest of the files is not
 * judged, so whoever only asks a running server is quick and need not wait for a mended file.
 * Undefined means that the whole configuration must be loaded, which then says what is wrong.
 */
export async function findState(given: string | undefined): Promise<StateConfig | undefined> {
  const home = readHomeDirectory();
  const where = { given, env: process.env, home, cwd: process.cwd() };
  const { file, directory } = findConfig(where);
  const faults: string[] = [];
  const report = (_: Path, message: string): void => void faults.push(message);
  const written = readPlainState(file) ?? (await readWritten(file, home));
  if (written === undefined) return undefined;
  const built = buildState(written, 'state', { directory, home, report });
  return faults.length > 0 ? undefined : built;
}

/** Where the ledger of a configuration with a syntax error probably is. */
export function guessStateDirectory(given: string | undefined): string {
  const home = readHomeDirectory();
  const { file, directory } = findConfig({ given, env: process.env, home, cwd: process.cwd() });
  const { path } = guessState(file);
  return dirname(resolvePath(path ?? './data/state.db', directory, home));
}

async function readWritten(file: string, home: string): Promise<WrittenState | undefined> {
  const { readEnvironmentFiles } = await import('./env-file.ts');
  const { interpolate } = await import('./interpolate.ts');
  const { mergeDocuments } = await import('./merge.ts');
  const { readSources } = await import('./sources.ts');
  const { sources, problems } = readSources(file, home);
  const environment = readEnvironmentFiles(sources, home);
  const { value } = mergeDocuments(sources.map(({ document }) => document));
  if (problems.length > 0 || environment.problems.length > 0 || !isObject(value)) return undefined;
  const { state = value['database'] ?? {}, database } = value;
  if (value['state'] !== undefined && database !== undefined) return undefined;
  const filled = interpolate(state, { ...environment.variables, ...process.env });
  return filled.faults.length === 0 && isWrittenState(filled.value) ? filled.value : undefined;
}

function isWrittenState(value: unknown): value is WrittenState {
  if (!isObject(value)) return false;
  const { path, url, dir, schema } = value;
  const isFile = url === undefined && dir === undefined && schema === undefined;
  return (
    Object.entries(value).every(([key, text]) => keys.includes(key) && isText(text)) &&
    (isFile || path === undefined) &&
    (isFile || url !== undefined)
  );
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value.trim() !== '';
}
