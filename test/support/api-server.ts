/** A whole server with its API on a free port of loopback, and ways to ask it. */
import { once } from 'node:events';
import { request, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { openServer, type Server } from '../../src/app/server.ts';
import type { JsonObject } from '../../src/base/json.ts';
import { makeDirectory } from './directory.ts';
import { collectLog, makeState, type Database, type LogRecords } from './instance.ts';
import { shell, succeeds } from './plugin-program.ts';
import { writePackage } from './packages.ts';
import { writeConfig, writePlugin } from './plugin-tree.ts';

export const OWNER = 'owner-token-0123456789abcdef';

export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly body: Record<string, unknown>;
}

export interface Ask {
  readonly method?: string;
  readonly token?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

export interface TestApi {
  readonly port: number;
  readonly server: Server;
  readonly records: LogRecords;
  /** Asks as the owner unless told otherwise. */
  ask(path: string, how?: Ask): Promise<Reply>;
  /** Asks the listener of webhooks, without a token. */
  deliver(path: string, how?: Ask): Promise<Reply>;
  /** Sends bytes and gives what comes back until the server hangs up, or has said enough. */
  raw(bytes: string | Buffer, enough?: RegExp): Promise<string>;
  close(): Promise<void>;
}

export interface ApiSetup {
  readonly database?: Database;
  readonly api?: JsonObject;
  readonly service?: JsonObject;
  readonly pipelines?: readonly JsonObject[];
  /** Entries of the configuration for its plugins, by name. */
  readonly plugins?: JsonObject;
  readonly tenants?: JsonObject;
  readonly webhooks?: JsonObject;
  readonly telemetry?: JsonObject;
  readonly directives?: JsonObject;
  /** The entries of `tokens.yaml`. */
  readonly tokens?: readonly JsonObject[];
  readonly routes?: readonly JsonObject[];
  /** Manifests of packages, by the directory that they are in. */
  readonly packages?: Readonly<Record<string, JsonObject>>;
  /** Roots of plugins and packages besides those in its directory. */
  readonly roots?: { readonly plugins: string; readonly packages: string };
  /** Puts more into its directory before it starts. */
  readonly prepare?: (directory: string) => Promise<void>;
}

const sleeps = shell('cat > /dev/null; exec sleep 60');
const emits = shell(`cat > /dev/null
echo '{"status":"ok","result":"told","events":[{"type":"thing.told","payload":{"n":1}}]}'`);

export async function startApi(setup: ApiSetup = {}): Promise<TestApi> {
  const { api, service, pipelines = [], plugins: settings = {}, tenants = {} } = setup;
  const directory = await makeDirectory();
  const plugins: readonly (readonly [string, string, string])[] = [
    [
      'echo',
      succeeds,
      `{poll: {type: read, description: Look},
        handle: {input_schema: {type: object, properties: {message: {type: string}}}}}`,
    ],
    ['sleeper', sleeps, '{poll: {}, handle: {}}'],
    ['teller', emits, '{poll: {}}'],
  ];
  for (const [name, program, commands] of plugins) {
    const files = { name, entrypoint: 'run', program, commands: `commands: ${commands}` };
    await writePlugin(join(directory, 'plugins', name), files);
  }
  for (const [name, manifest] of Object.entries(setup.packages ?? {})) {
    await writePackage(join(directory, 'packages', name), manifest);
  }
  await setup.prepare?.(directory);
  const state = await makeState(directory, setup);
  const config = await writeConfig(
    directory,
    JSON.stringify({
      service: { max_workers: 4, poll_interval: '20ms', shutdown_timeout: '10ms', ...service },
      state,
      plugin_roots: ['./plugins', ...(setup.roots === undefined ? [] : [setup.roots.plugins])],
      ...(setup.packages === undefined ? {} : { package_roots: ['./packages'] }),
      ...(setup.roots === undefined ? {} : { package_roots: [setup.roots.packages] }),
      plugins: settings,
      pipelines: [...pipelines],
      tenants,
      routes: [...(setup.routes ?? [])],
      ...(setup.webhooks === undefined ? {} : { webhooks: setup.webhooks }),
      ...(setup.telemetry === undefined ? {} : { telemetry: setup.telemetry }),
      ...(setup.directives === undefined ? {} : { directives: setup.directives }),
      ...(setup.tokens === undefined ? {} : { tokens: [...setup.tokens] }),
      api: {
        enabled: true,
        listen: '127.0.0.1:0',
        auth: { tokens: [{ name: 'owner', token: OWNER, scopes: ['*'] }] },
        ...api,
      },
    }),
  );
  const { log, records } = collectLog();
  const server = await openServer(config, log);
  const port = Number(server.surfaces.api?.split(':').at(-1));
  return {
    port,
    server,
    records,
    ask: (path, how) => ask(port, path, how),
    deliver: (path, how) => {
      const at = Number(server.surfaces.webhooks?.split(':').at(-1));
      return ask(at, path, { token: undefined, ...how });
    },
    raw: (bytes, enough) => raw(port, bytes, enough),
    close: () => server.close(),
  };
}

async function ask(port: number, path: string, how: Ask = {}): Promise<Reply> {
  const { method = how.body === undefined ? 'GET' : 'POST', body } = how;
  const token = 'token' in how ? how.token : OWNER;
  const asked = request({
    port,
    host: '127.0.0.1',
    method,
    path,
    agent: false,
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...how.headers,
    },
  });
  // The server may answer and hang up before a large body is sent.
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    asked.once('response', resolve);
    asked.on('error', reject);
  });
  asked.end(body);
  const response = await answered;
  const said = await text(response);
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    text: said,
    body: parse(said),
  };
}

function parse(said: string): Record<string, unknown> {
  try {
    return JSON.parse(said) as Record<string, unknown>;
  } catch {
    return {};
  }
}

async function raw(port: number, bytes: string | Buffer, enough?: RegExp): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  let said = '';
  socket.setEncoding('utf8').on('data', (chunk: string) => {
    said += chunk;
    if (enough?.test(said) === true) socket.destroy();
  });
  socket.on('error', () => undefined);
  const closed = once(socket, 'close');
  socket.write(bytes);
  await closed;
  return said;
}
