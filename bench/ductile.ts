import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { dropSchema, postgresUrl } from './postgres.ts';
import { canMakePlugin, makePlugin, type PluginKind } from './plugins.ts';
import { emptyDirectory, hasMemory, memoryDirectory } from './work.ts';

/** The product in one configuration. */
export interface Setup {
  readonly ledger: 'sqlite' | 'postgres';
  readonly plugin: PluginKind;
  readonly slots: number;
  readonly spawner?: 'native' | 'node';
  /** Its SQLite file is in memory. */
  readonly inMemory?: boolean;
  /** Processes that wait for a request; left open unless told. */
  readonly prewarm?: number;
  /** With a token for the API. */
  readonly api?: boolean;
  /** With an API and tokens for so many who look at everything. */
  readonly viewers?: number;
  /** With tenants who have the plugin too. */
  readonly tenants?: boolean;
  /** The name of its directory and schema, where its ledger is to outlive the bursts of other arms. */
  readonly name?: string;
  /** Its pipelines, in YAML, of steps of the plugin of this name. */
  readonly pipelines?: (plugin: string) => string;
}

export const BENCH_TOKEN = 'bench-token-0123456789';

/** What a program needs to open it. */
export interface Place {
  /** To be given as `--config`. */
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

/** The schema of every arm on PostgreSQL; each burst finds it dropped. */
export const DUCTILE_SCHEMA = 'ductile_bench_ductile';

function schemaOf({ name }: Setup): string {
  return name === undefined ? DUCTILE_SCHEMA : `${DUCTILE_SCHEMA}_${name.replaceAll('-', '_')}`;
}

export async function canSetUp({ plugin, inMemory }: Setup): Promise<true | string> {
  const memory = inMemory === true ? await hasMemory() : true;
  return memory === true ? await canMakePlugin(plugin) : memory;
}

/** A configuration directory with an empty ledger, as an operator would write it. */
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
