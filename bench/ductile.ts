import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { dropSchema, postgresUrl } from './postgres.ts';
import { canMakePlugin, makePlugin, type PluginKind } from './plugins.ts';
import { emptyDirectory, hasMemory, memoryDirectory } from './work.ts';

/** Configuration of the service for one arm. */
export interface Setup {
  readonly ledger: 'sqlite' | 'postgres';
  readonly plugin: PluginKind;
  readonly slots: number;
  readonly spawner?: 'native' | 'node';
  /** Puts the SQLite file in memory. */
  readonly inMemory?: boolean;
  /** Number of prewarmed processes (default: not configured). */
  readonly prewarm?: number;
  /** Enables the API, with a token. */
  readonly api?: boolean;
  /** Enables the API, with read tokens for this many viewers. */
  readonly viewers?: number;
  /** Enables tenants, which share the plugin. */
  readonly tenants?: boolean;
  /** Name of its directory and schema, if its ledger must outlive the bursts of other arms. */
  readonly name?: string;
  /** Returns its pipelines in YAML, for a plugin's name. */
  readonly pipelines?: (plugin: string) => string;
}

export const BENCH_TOKEN = 'bench-token-0123456789';

/** Paths and names that a program needs to open the service. */
export interface Place {
  /** Value of `--config`. */
  readonly config: string;
  readonly plugin: string;
}

const api = `api:
  enabled: true
  max_concurrent_sync: 64
  auth: { tokens: [{ name: bench, token: ${BENCH_TOKEN}, scopes: ['plugin:rw'] }] }
`;

export function viewerToken(number: number): string {
  return `viewer-${number}-token-0123456789`;
}

function viewersText(count: number): string {
  const tokens = Array.from(
    { length: count },
    (_, at) => `{ name: viewer${at}, token: ${viewerToken(at)}, scopes: ['*'] }`,
  );
  return count === 0 ? '' : `api: { enabled: true, auth: { tokens: [${tokens.join(', ')}] } }\n`;
}

/** Schema of every arm on PostgreSQL, which is dropped before each burst. */
export const DUCTILE_SCHEMA = 'ductile_bench_ductile';

function schemaOf({ name }: Setup): string {
  return name === undefined ? DUCTILE_SCHEMA : `${DUCTILE_SCHEMA}_${name.replaceAll('-', '_')}`;
}

export async function canSetUp({ plugin, inMemory }: Setup): Promise<true | string> {
  const memory = inMemory === true ? await hasMemory() : true;
  return memory === true ? await canMakePlugin(plugin) : memory;
}

/** Creates a configuration directory with an empty ledger. */
export async function setUp(setup: Setup): Promise<Place> {
  const plugin = await makePlugin(setup.plugin);
  const config = await emptyDirectory(setup.name ?? 'ductile');
  await writeFile(join(config, 'config.yaml'), await configOf(setup, plugin.root, plugin.name));
  if (setup.ledger === 'postgres') await dropSchema(schemaOf(setup));
  return { config, plugin: plugin.name };
}

async function configOf(setup: Setup, root: string, plugin: string): Promise<string> {
  const state =
    setup.ledger === 'sqlite'
      ? `{ path: ${setup.inMemory === true ? await memoryDirectory('ductile') : './data'}/state.db }`
      : `{ url: ${JSON.stringify(await postgresUrl())}, schema: ${schemaOf(setup)} }`;
  return `service:
  log_level: error
  max_workers: ${setup.slots}
  spawner: ${setup.spawner ?? 'native'}
state: ${state}
plugin_roots: [${JSON.stringify(root)}]
plugins:
  ${plugin}: { shared: ${setup.tenants === true}${setup.prewarm === undefined ? '' : `, prewarm: ${setup.prewarm}`} }
tenants: { trust: shared }
${setup.api === true ? api : viewersText(setup.viewers ?? 0)}${setup.pipelines?.(plugin) ?? ''}`;
}
