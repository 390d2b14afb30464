/** Installations that wait, that are overtaken, and what their handlers do while jobs run. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { ask } from '../support/direct.ts';
import { databases, eventually, makePlace } from '../support/instance.ts';
import { manifest, listSignals, listSignalTypes, writePackage } from '../support/packages.ts';
import { python } from '../support/plugin-program.ts';

const worker = {
  program: python(`
if payload.get("fail"): fail(retry=False)
events = [{"type": "disk.full", "payload": {"plugin": "worker"}}] if payload.get("tell") else []
ok(events=events, state_updates={"seen": 1})`),
};
const greeter = manifest({
  requires: [{ plugin: 'worker' }],
  plugins: { greeting: { uses: 'worker' } },
});
const choice = { package_slug: 'greeter' };

describe.each(databases)('an installation on %s', (database) => {
  test('is changed by an upgrade to the same version when its files have changed', async () => {
    const place = await makePlace({ database, plugins: { worker }, packages: { greeter } });
    const { engine, ledger } = await place.start();
    await ask(engine, 'package.install', choice);
    const write = (more: JsonObject) =>
      writePackage(join(place.directory, 'packages', 'greeter'), { ...greeter, ...more });
    const upgrade = (more = {}) => ask(engine, 'package.upgrade', choice, more);
    await expect(upgrade()).rejects.toMatchObject({ code: 'PACKAGE_REFUSED', place: 'version' });
    for (const name of ['first', 'second']) {
      await write({ plugins: { [name]: { uses: 'worker' } } });
      const { plan } = await upgrade({ dryRun: true });
      expect(plan[0]).toBe('greeter will change from 1.0.0 to 1.0.0, whose files have changed.');
      const done = await upgrade();
      expect(done).toMatchObject({ status: 'completed', repeated: false });
      expect(engine.catalog.plugins.has(name)).toBe(true);
      const again = await upgrade({ dryRun: true });
      const message = `The request is already directive ${done.id ?? ''}, which is completed; nothing would change.`;
      expect(again).toMatchObject({ id: null, plan: [message] });
      expect(await upgrade()).toMatchObject({ id: done.id, repeated: true });
    }
    expect(await ledger.directives.list({ type: 'package.upgrade', limit: 9 })).toHaveLength(2);
  });

  test('is upgraded after a plan that shows each value before and after', async () => {
    const settings = { every: '1m', folder: '/a' };
    const config = { every: '${config.every}' };
    const own = {
      ...greeter,
      config_schema: { type: 'object', additionalProperties: { type: 'string' } },
      plugins: { greeting: { uses: 'worker', config } },
    };
    const place = await makePlace({ database, plugins: { worker }, packages: { greeter: own } });
    const { engine, ledger } = await place.start();
    await ask(engine, 'package.install', { ...choice, config: settings });
    const changed = { every: '5m' };
    const { plan } = await ask(
      engine,
      'package.upgrade',
      { ...choice, config: changed },
      { dryRun: true },
    );
    expect(plan).toEqual([
      'greeter will change from 1.0.0 to 1.0.0, with another configuration.',
      'config.every will change from "1m" to "5m".',
      'config.folder will change from "/a" to not set.',
      'plugins.greeting.config.every will change from "1m" to "5m".',
    ]);
    expect(await ledger.directives.list({ type: 'package.upgrade', limit: 9 })).toEqual([]);
  });

  test('is of the files that were approved, or of none', async () => {
    const directives = { approval: ['package.install'] };
    const setup = { database, plugins: { worker }, packages: { greeter }, directives };
    const place = await makePlace(setup);
    const { engine, ledger } = await place.start();
    const { id } = await ask(engine, 'package.install', choice);
    const other = { ...greeter, plugins: { otherwise: { uses: 'worker' } } };
    await writePackage(join(place.directory, 'packages', 'greeter'), other);
    const approver = { actor: 'cli:bob', isOwner: true };
    const answer = await engine.directives.waiting.approve(id ?? '', approver);
    expect(answer).toMatchObject({ status: 'failed', errorCode: 'PACKAGE_REFUSED' });
    expect(await ledger.installations.list({})).toEqual([]);
  });

  test('that waits for approval is checked again when it begins', async () => {
    const directives = { approval: ['package.install'] };
    const setup = { database, plugins: { worker }, packages: { greeter }, directives };
    const place = await makePlace(setup);
    const { engine, ledger } = await place.start();
    const first = await ask(engine, 'package.install', choice);
    expect(first).toMatchObject({ status: 'requested', awaitingApproval: true });
    expect(engine.catalog.plugins.has('greeting')).toBe(false);
    const approver = { actor: 'cli:bob', isOwner: true };
    await engine.directives.waiting.approve(first.id ?? '', approver);
    expect(engine.catalog.plugins.has('greeting')).toBe(true);
    await ask(engine, 'package.uninstall', choice);
    const second = await ask(engine, 'package.install', choice);
    await rm(join(place.directory, 'packages', 'greeter'), { recursive: true });
    const answer = await engine.directives.waiting.approve(second.id ?? '', approver);
    expect(answer).toMatchObject({ status: 'failed', errorCode: 'PACKAGE_NOT_FOUND' });
    expect(await ledger.installations.list({})).toEqual([]);
    const types = (await listSignalTypes(ledger)).filter((type) =>
      type.startsWith('package.install'),
    );
    expect(types).toEqual([
      'package.install.requested',
      'package.install.started',
      'package.install.completed',
      'package.install.requested',
      'package.install.started',
      'package.install.failed',
    ]);
    const failed = (await listSignals(ledger)).find(
      ({ type }) => type === 'package.install.failed',
    );
    expect(failed).toMatchObject({
      subjectType: 'package_installation',
      subjectId: second.id,
      dedupeKey: `pkg_install_fail:root:${second.id}:1`,
    });
  });

  test('stays active over a reload, and its plugins forget only when they are asked to', async () => {
    const place = await makePlace({ database, plugins: { worker }, packages: { greeter } });
    const { engine, ledger, run } = await place.start();
    await ask(engine, 'package.install', choice);
    const plan = await ask(engine, 'config.reload', {}, { dryRun: true });
    expect(plan.plan).toEqual(['Nothing would change.']);
    await ask(engine, 'config.reload', {});
    expect(await run('greeting')).toMatchObject({ status: 'succeeded' });
    await ask(engine, 'package.uninstall', choice);
    expect(await ledger.plugins.readState('greeting')).toBe('{"seen":1}');
    await ask(engine, 'package.install', choice);
    await ask(engine, 'package.uninstall', { ...choice, purge: true });
    expect(await ledger.plugins.readState('greeting')).toBe('{}');
  });

  test('asks by its handlers for what follows from an event of a job, in its commit', async () => {
    const keeper = manifest({
      slug: 'keeper',
      handlers: [
        {
          on: 'disk.full',
          from: 'worker',
          directive: 'plugin.disable',
          params: { plugin: '{payload.plugin}' },
        },
        { on: 'disk.full', from: 'somebody', directive: 'system.pause' },
        { on: 'job.dead', directive: 'plugin.disable', params: { plugin: '{payload.nothing}' } },
      ],
    });
    const packages = { keeper };
    const place = await makePlace({ database, plugins: { worker }, packages });
    const { engine, ledger, run, records } = await place.start();
    await ask(engine, 'package.install', { package_slug: 'keeper' });
    await run('worker', { fail: true });
    await eventually('it says why it cannot', () =>
      records.some(({ message }) => message === 'a handler could not request its directive'),
    );
    await run('worker', { tell: true });
    const [asked] = await ledger.directives.list({ type: 'plugin.disable', limit: 10 });
    expect(asked).toMatchObject({ actor: 'installation:keeper', target: 'plugin:worker' });
    await eventually('it is done', async () => (await ledger.plugins.listDisabled()).length === 1);
    expect(await ledger.directives.list({ type: 'system.pause', limit: 10 })).toEqual([]);
    await ask(engine, 'package.disable', { package_slug: 'keeper' });
    await ask(engine, 'plugin.enable', { plugin: 'worker' });
    await run('worker', { tell: true });
    expect(await ledger.directives.list({ type: 'plugin.disable', limit: 10 })).toHaveLength(1);
    expect(await ledger.check()).toEqual([]);
  });
});

test('packages that are found at the start are logged once, with the installations', async () => {
  const broken = { ...worker, manifest: 'config_keys: 5' };
  const place = await makePlace({ plugins: { worker, broken }, packages: { greeter } });
  const first = await place.start();
  await ask(first.engine, 'package.install', choice);
  await first.close();
  const { records, engine } = await place.start();
  expect(engine.catalog.plugins.has('greeting')).toBe(true);
  const lines = records.filter(({ message }) => message.startsWith('plugin not loaded'));
  expect(lines).toHaveLength(1);
});
