/** Which tier a host gets: kernels with less Landlock, no tier at all, and user ids. */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import {
  describeIsolation,
  findIsolation,
  makeConfinedHost,
  type Isolation,
  type IsolationTier,
} from '../../src/plugin/isolation.ts';
import { pickUser } from '../../src/plugin/profile.ts';
import { makeDirectory } from '../support/directory.ts';
import { makeSpec, nothing, optionsOf, startHost, useNativeSpawner } from '../support/hosts.ts';
import { makeIsolationFixture, ownUid, searchedPath } from '../support/isolation-fixture.ts';

const source = resolve(import.meta.dirname, '../../native/spawner.c');
const spawner = useNativeSpawner();
const isLinux = process.platform === 'linux';
const usual = { network: 'host', read: [], write: [] } as const;

function find(nativePath: string, tiers: readonly IsolationTier[], uid = ownUid): Isolation {
  return findIsolation({ nativePath, hidden: [], readable: [], path: '', uid, tiers });
}

/** 5 is Linux 6.10, the last that lets a confined process signal others; 0 has no Landlock. */
describe.runIf(isLinux && existsSync('/usr/bin/cc')).each([5, 0])('with Landlock %i', (version) => {
  let native = '';
  beforeAll(async () => {
    native = join(await makeDirectory(), 'spawner');
    const flags = ['-O1', '-Wall', '-Wextra', '-Werror', `-DDUCTILE_LANDLOCK_MAX=${version}`];
    execFileSync('cc', [...flags, '-o', native, source]);
  });

  test('the landlock tier is refused', () => {
    const { tier, reason } = find(native, ['landlock']);
    expect(tier).toBe('none');
    expect(reason).toContain('6.12');
  });

  test('a box keeps a hostile plugin in without it', async ({ skip }) => {
    const host = await startHost(optionsOf('native', spawner.pathOf('native')));
    const sandbox = await makeIsolationFixture('namespaces', { host, native, asNobody: false });
    skip(sandbox.isolation.tier === 'none', sandbox.isolation.reason ?? '');
    const { reached, before, after } = await sandbox.attack();
    expect(reached).toEqual([]);
    expect(after).toEqual(before);
  });
});

describe('without a tier', () => {
  const isolation = findIsolation({
    nativePath: '/nowhere',
    hidden: [],
    readable: [],
    path: '',
    uid: ownUid,
  });

  test('every way is named with the reason why it does not work', () => {
    expect(isolation.tier).toBe('none');
    expect(describeIsolation(isolation)).toMatch(
      isLinux ? /namespaces: .*bubblewrap: bwrap is not installed; landlock: / : /^none \(/,
    );
  });

  test('a process that has to be confined does not run, and neither does one started ahead', async () => {
    const host = await startHost({ kind: 'node' });
    const confined = makeConfinedHost(host, (spec) => isolation.confine(spec, usual, 'x'));
    const refusal = { code: 'PLUGIN_NOT_ISOLATED' };
    await expect(confined.run(makeSpec('/bin/true'), nothing)).rejects.toMatchObject(refusal);
    const held = confined.hold(makeSpec('/bin/true'));
    await held.spoiled;
    await expect(held.feed(nothing)).rejects.toMatchObject(refusal);
  });
});

test('a host that cannot confine runs no plugin that requests isolation', async () => {
  const host = await startHost({ kind: 'node' });
  const spec = { ...makeSpec('/bin/true'), isolation: { network: undefined, read: [], write: [] } };
  const refusal = { code: 'PLUGIN_NOT_ISOLATED' };
  await expect(host.run(spec, nothing)).rejects.toMatchObject(refusal);
  const held = host.hold(spec);
  await held.spoiled;
  await expect(held.feed(nothing)).rejects.toMatchObject(refusal);
});

test.runIf(isLinux)('a directory of plugins that has to be hidden leaves no tier', async () => {
  const directory = await makeDirectory();
  const found = findIsolation({
    nativePath: spawner.pathOf('native'),
    hidden: [directory],
    readable: [directory],
    path: searchedPath,
    uid: ownUid,
  });
  expect(found.tier).toBe('none');
  expect(found.reason).toContain('must be hidden');
});

test.runIf(isLinux)('the tier says whether tenants have user ids of their own', ({ skip }) => {
  const native = spawner.pathOf('native');
  skip(find(native, ['namespaces']).tier === 'none', 'namespaces do not work here');
  skip(find(native, ['landlock'], 1000).tier === 'none', 'Landlock does not work here');
  expect(describeIsolation(find(native, ['namespaces']))).toBe(
    ownUid === 0
      ? 'namespaces, with a user id per tenant'
      : "namespaces, under the service's user id",
  );
  expect(describeIsolation(find(native, ['landlock'], 1000))).toContain('without a private /tmp');
});

test('a user id is that of its owner every time, and lies where no system gives out ids', () => {
  const whole = '         0          0 4294967295\n';
  const first = pickUser('tenant acme', whole);
  expect(pickUser('tenant acme', whole)).toBe(first);
  expect(pickUser('tenant other', whole)).not.toBe(first);
  expect(first).toBeGreaterThanOrEqual(0x4000_0000);
  expect(first).toBeLessThan(0x5000_0000);
  const inContainer = pickUser('tenant acme', '         0     100000      65536\n');
  expect(inContainer).toBeGreaterThanOrEqual(20_000);
  expect(inContainer).toBeLessThan(60_000);
});
