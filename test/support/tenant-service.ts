/** The service in its own process, with a tenant and a hostile plugin. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, realpathSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import type { JsonObject } from '../../src/base/json.ts';
import { writeAttacker } from './attacker.ts';
import { makeDirectory } from './directory.ts';
import { eventually } from './instance.ts';
import { writePlugin } from './plugin-tree.ts';

export interface TenantService {
  readonly pid: number;
  /** State directory, which contains the key of credentials. */
  readonly state: string;
  readonly config: string;
  /** Roots outside of both, which only isolation protects. */
  readonly plugins: string;
  readonly packages: string;
  /** Directory of the plugin `hostile`. */
  readonly hostile: string;
  /** Directory like that of another attempt, with a token. */
  readonly attempt: string;
  /** Runs a plugin's poll as the tenant, and returns its result. */
  readonly run: (plugin: string) => Promise<string>;
  readonly close: () => Promise<void>;
}

const program = resolve(import.meta.dirname, '../..');
const OWNER = 'a-token-of-the-operator';

/** `uid` is the user of the service (default: that of the tests). */
export async function startTenantService(uid: number | undefined): Promise<TenantService> {
  const directory = realpathSync(await makeDirectory());
  const at = (name: string): string => join(directory, name);
  for (const name of ['config', 'state', 'plugins', 'packages', 'attempt']) {
    mkdirSync(at(name), { mode: 0o755 });
    writeFileSync(join(at(name), 'file'), '#!/bin/sh\n');
  }
  writeFileSync(join(at('attempt'), 'mcp.json'), '{"token":"duct_of_another_attempt"}');
  const hostile = join(at('plugins'), 'hostile');
  await writePlugin(hostile, { name: 'hostile', entrypoint: 'run', program: '' });
  const none = { readOnly: [], secrets: [], closed: [], sockets: [], pids: [], ports: [] };
  writeAttacker(hostile, none);
  writeFileSync(join(at('config'), 'config.yaml'), JSON.stringify(configOf(directory)));
  if (uid !== undefined) execFileSync('chown', ['-R', `${uid}:${uid}`, directory]);
  const service = await launch(at('config'), uid);
  const ask = makeAsk(service.port);
  await ask('/credentials', { name: 'mine', value: 'a-secret-of-the-operator' }, OWNER);
  const { token = '' } = await ask('/tenants', { slug: 'acme' }, OWNER);
  await ask('/tenants', { slug: 'other' }, OWNER);
  return {
    ...service,
    state: at('state'),
    config: at('config'),
    plugins: at('plugins'),
    packages: at('packages'),
    hostile,
    attempt: at('attempt'),
    async run(plugin) {
      const { job_id: id } = await ask(`/plugin/${plugin}/poll`, {}, token);
      const job = await eventually(`${plugin} has ended`, async () => {
        const found = await ask(`/job/${id}`, undefined, token);
        if (typeof found.last_error === 'string') throw new Error(found.last_error);
        return found.status === 'succeeded' && found;
      });
      return job.result?.result ?? '';
    },
  };
}

function configOf(directory: string): JsonObject {
  return {
    state: { path: join(directory, 'state', 'ledger.db') },
    plugin_roots: [join(directory, 'plugins')],
    package_roots: [join(directory, 'packages')],
    plugins: {
      hostile: { shared: true },
      alone: { uses: 'hostile', shared: true, isolation: { network: 'none' } },
    },
    api: {
      enabled: true,
      listen: '127.0.0.1:0',
      auth: { tokens: [{ name: 'owner', token: OWNER, scopes: ['*'] }] },
    },
  };
}

async function launch(config: string, uid: number | undefined) {
  const words = ['bin/ductile.cjs', 'system', 'start', '--config', config];
  const env = { PATH: process.env['PATH'], HOME: config };
  const as = uid === undefined ? {} : { uid, gid: uid };
  const child = spawn(process.execPath, words, { cwd: program, env, stdio: 'pipe', ...as });
  const closed = once(child, 'close');
  const complaints = text(child.stderr);
  const close = async (): Promise<void> => {
    child.kill('SIGTERM');
    await closed;
  };
  for await (const line of createInterface(child.stdout)) {
    const api = /127\.0\.0\.1:(\d+)/.exec(line)?.[1];
    if (line.includes('ductile is ready') && api !== undefined) {
      child.stdout.resume();
      return { pid: child.pid ?? 0, port: Number(api), close };
    }
  }
  throw new Error(`the service did not start: ${await complaints}`);
}

/** Used fields of responses. */
interface Answer {
  readonly token?: string;
  readonly job_id?: string;
  readonly status?: string;
  readonly last_error?: string | null;
  readonly result?: { readonly result: string } | null;
}

function makeAsk(port: number) {
  return async (path: string, body: object | undefined, token: string): Promise<Answer> => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as Answer;
  };
}
