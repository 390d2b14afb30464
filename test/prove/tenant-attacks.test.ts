/**
 * A tenant that runs a hostile plugin through the real service. It attacks plugins, packages and
 * the program, the state and its keys, sockets of the same user, files of other attempts, and the
 * service's process. None of its attacks reaches the host or another tenant, for any user of the
 * service.
 */
import { chownSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { join, resolve } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import {
  describeTree,
  listenAt,
  listReached,
  readAttack,
  writeAttacker,
  type AttackTargets,
} from '../support/attacker.ts';
import { nobodyUid, ownUid } from '../support/isolation-fixture.ts';
import { startTenantService, type TenantService } from '../support/tenant-service.ts';
import { campaign } from './support/campaign.ts';

const program = resolve(import.meta.dirname, '../..');
const limits = { trials: 1, timeoutMs: 180_000 };

/** As root, each tenant gets a user id; other users have only namespaces. */
campaign('tenant-attacks', limits, async () => {
  const users = ownUid === 0 ? [undefined, nobodyUid] : [undefined];
  let attacks = 0;
  for (const uid of users) {
    const service = await startTenantService(uid);
    onTestFinished(() => service.close());
    const servers = await openServers(service.attempt, uid);
    try {
      const targets = aimAt(service, servers.sockets);
      const first = await attackWith(service, 'hostile', targets);
      const strict = { ...targets, ports: [servers.port] };
      const second = await attackWith(service, 'alone', strict);
      const own = uid === undefined && ownUid === 0;
      for (const { uid: seen } of [first, second]) expect(seen === (uid ?? ownUid)).toBe(!own);
      attacks += 2;
    } finally {
      servers.close();
    }
  }
  return { attacks, reached: 0 };
});

function aimAt(service: TenantService, sockets: readonly string[]): AttackTargets {
  const { state, config, plugins, packages, attempt, pid } = service;
  const shipped = [join(program, 'dist'), join(program, 'plugins'), join(program, 'build')];
  return {
    readOnly: [plugins, packages, service.hostile, ...shipped],
    secrets: [
      join(state, 'credential.key'),
      join(state, 'ledger.db'),
      join(state, 'org_other.db'),
      join(config, 'config.yaml'),
      join(attempt, 'mcp.json'),
    ],
    closed: [state, config, attempt],
    sockets,
    pids: [pid, process.pid],
    ports: [],
  };
}

async function attackWith(service: TenantService, plugin: string, targets: AttackTargets) {
  writeAttacker(service.hostile, targets);
  const watch = (): unknown =>
    [
      ...[service.plugins, service.packages, service.config, service.attempt].map(describeTree),
      // The ledgers themselves change all the time.
      describeTree(service.state).filter((line) => /^(credential\.key|file)? /.test(line)),
    ].map((lines) => lines.map(withoutTimes));
  const before = watch();
  const result = readAttack(await service.run(plugin));
  expect(listReached(result)).toEqual([]);
  expect(watch()).toEqual(before);
  return result;
}

/** The service itself changes the time of the state directory. */
function withoutTimes(line: string): string {
  return line.startsWith(' ') ? line.split(' ').slice(0, 3).join(' ') : line;
}

/** Sockets of the service's user: with a path, with a name, and on the loopback. */
async function openServers(directory: string, uid: number | undefined) {
  const sockets = [join(directory, 'tmux'), `@ductile-attacked-${process.pid}`];
  const servers = await Promise.all(sockets.map(listenAt));
  if (uid !== undefined) chownSync(join(directory, 'tmux'), uid, uid);
  const onLoopback = await listenAt(0);
  const { port } = onLoopback.address() as AddressInfo;
  const close = (): void => {
    for (const server of [...servers, onLoopback]) server.close();
  };
  return { sockets, port, close };
}
