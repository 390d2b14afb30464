/** A complete service with its API on a free loopback port, and functions to call it. */
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

export interface RequestOptions {
  readonly method?: string;
  readonly token?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

export interface TestApi {
  readonly port: number;
  readonly server: Server;
  readonly records: LogRecords;
  /** Sends a request, as the owner by default. */
  ask(path: string, how?: RequestOptions): Promise<Reply>;
  /** Sends a request to the webhook listener, without a token. */
  deliver(path: string, how?: RequestOptions): Promise<Reply>;
  /** Sends bytes, and returns the response until the connection closes or `enough` matches. */
  raw(bytes: string | Buffer, enough?: RegExp): Promise<string>;
  close(): Promise<void>;
}

export interface ApiSetup {
  readonly database?: Database;
  readonly api?: JsonObject;
  readonly service?: JsonObject;
  readonly pipelines?: readonly JsonObject[];
  /** Configuration of its plugins, by name. */
  readonly plugins?: JsonObject;
  readonly tenants?: JsonObject;
  readonly webhooks?: JsonObject;
  readonly telemetry?: JsonObject;
  readonly directives?: JsonObject;
  /** The entries of `tokens.yaml`. */
  readonly tokens?: readonly JsonObject[];
  readonly routes?: readonly JsonObject[];
  /** Manifests of packages, by directory. */
  readonly packages?: Readonly<Record<string, JsonObject>>;
  /** Additional roots of plugins and packages. */
  readonly roots?: { readonly plugins: string; readonly packages: string };
  /** Writes more files to its directory before the start. */
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

async function ask(port: number, path: string, how: RequestOptions = {}): Promise<Reply> {
  const { method = how.body === undefined ? 'GET' : 'POST', body } = how;
  const token = 'token' in how ? how.token : OWNER;
  const outgoing = request({
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
  // The service may respond and close the connection before a large body is sent.
  const responded = new Promise<IncomingMessage>((resolve, reject) => {
    outgoing.once('response', resolve);
    outgoing.on('error', reject);
  });
  outgoing.end(body);
  const response = await responded;
  const responseText = await text(response);
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    text: responseText,
    body: parse(responseText),
  };
}

function parse(responseText: string): Record<string, unknown> {
  try {
    return JSON.parse(responseText) as Record<string, unknown>;
  } catch {
    return {};
  }
}

async function raw(port: number, bytes: string | Buffer, enough?: RegExp): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  let responseText = '';
  socket.setEncoding('utf8').on('data', (chunk: string) => {
    responseText += chunk;
    if (enough?.test(responseText) === true) socket.destroy();
  });
  socket.on('error', () => undefined);
  const closed = once(socket, 'close');
  socket.write(bytes);
  await closed;
  return responseText;
}
