/**
 * A tenant that runs a hostile plugin through the real service. It attacks plugins, packages and the
 * program, the state and its keys, sockets of the same user, files of other attempts, and the service's
 * process. Nothing that it does reaches the host or another tenant.
 */
import { mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { dirname, join, resolve } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { startApi, type TestApi } from '../support/api-server.ts';
import {
  describeTree,
  listenAt,
  listReached,
  readAttack,
  writeAttacker,
  type AttackTargets,
} from '../support/attacker.ts';
import { makeDirectory } from '../support/directory.ts';
import { eventually } from '../support/instance.ts';
import { writePlugin } from '../support/plugin-tree.ts';
import { makeTenant, type TestTenant } from '../support/tenants.ts';
import { campaign } from './support/campaign.ts';

const program = resolve(import.meta.dirname, '../..');

campaign('tenant-attacks', { trials: 1, timeoutMs: 180_000 }, async () => {
  // Roots outside the state and the configuration: nothing hides them.
  const outside = realpathSync(await makeDirectory());
  const roots = ['more-plugins', 'more-packages', 'other-attempt'].map((name) => {
    const root = join(outside, name);
    mkdirSync(root, { mode: 0o755 });
    writeFileSync(join(root, 'file'), '#!/bin/sh\n');
    return root;
  });
  const [plugins = '', packages = '', attempt = ''] = roots;
  const hostile = join(plugins, 'hostile');
  await writePlugin(hostile, { name: 'hostile', entrypoint: 'run', program: '' });
  const none = { readOnly: [], secrets: [], closed: [], sockets: [], pids: [], ports: [] };
  writeAttacker(hostile, none);
  writeFileSync(join(attempt, 'mcp.json'), '{"token":"duct_of_another_attempt"}');
  const api = await startApi({
    plugins: { hostile: { shared: true }, alone: { uses: 'hostile', shared: true, ...aloneSet } },
    roots: { plugins, packages },
  });
  onTestFinished(() => api.close());
  const { state, directory } = api.server.instance.config;
  const secret = JSON.stringify({ name: 'mine', value: 'a-secret-of-the-operator' });
  expect((await api.ask('/credentials', { body: secret })).status).toBeLessThan(300);
  const tenant = await makeTenant(api);
  const other = await makeTenant(api);
  await openServers(outside, async (sockets, port) => {
    const key = join(state.dir, 'credential.key');
    const targets: AttackTargets = {
      readOnly: [plugins, packages, join(program, 'dist'), join(program, 'plugins')],
      secrets: [key, join(directory, 'config.yaml'), join(attempt, 'mcp.json')],
      closed: [state.dir, directory, attempt],
      sockets: [...sockets, join(state.dir, 'control.sock')],
      pids: [process.pid, process.ppid],
      ports: [],
    };
    await expectNothing(api, tenant, { hostile, outside, targets, plugin: 'hostile' });
    const strict = { ...targets, ports: [port] };
    await expectNothing(api, tenant, { hostile, outside, targets: strict, plugin: 'alone' });
  });
  expect((await other.ask('/jobs')).status).toBe(200);
  return { attacks: 2, reached: 0 };
});

/** The strict form: a network of its own. */
const aloneSet = { isolation: { network: 'none' } };

interface Attack {
  readonly hostile: string;
  readonly outside: string;
  readonly targets: AttackTargets;
  readonly plugin: string;
}

async function expectNothing(api: TestApi, tenant: TestTenant, attack: Attack): Promise<void> {
  const { state, directory } = api.server.instance.config;
  const key = join(state.dir, 'credential.key');
  writeAttacker(attack.hostile, attack.targets);
  const watched = (): unknown => [
    describeTree(attack.outside),
    describeTree(join(directory, 'plugins')),
    readFileSync(key, 'utf8'),
    describeTree(dirname(key)).filter((line) => line.startsWith('credential.key ')),
  ];
  const before = watched();
  const asked = await tenant.post(`/plugin/${attack.plugin}/poll`);
  expect(asked.text).toContain('job_id');
  const id = String(asked.body['job_id']);
  const result = await eventually('it has attacked', async () => {
    const { body } = await tenant.ask(`/job/${id}`);
    if (body['last_error']) throw new Error(JSON.stringify(body));
    return body['status'] === 'succeeded' && JSON.stringify(body['result']);
  });
  const { result: printed } = JSON.parse(result) as { result: string };
  expect(listReached(readAttack(printed))).toEqual([]);
  expect(watched()).toEqual(before);
}

/** Sockets as the user of the service would have them: by a path, by a name, and on the loopback. */
async function openServers(
  directory: string,
  work: (sockets: readonly string[], port: number) => Promise<void>,
): Promise<void> {
  const sockets = [join(directory, 'tmux'), `@ductile-attacked-${process.pid}`];
  const servers = await Promise.all([...sockets.map(listenAt), listenAt(0)]);
  try {
    await work(sockets, (servers.at(-1)?.address() as AddressInfo | undefined)?.port ?? 0);
  } finally {
    for (const server of servers) server.close();
  }
}
