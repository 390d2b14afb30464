/** Operations on plugin health, reloads and metrics, on a real engine. */
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { ownerOf } from '../../src/operation/context.ts';
import type { JsonOutput } from '../../src/operation/define.ts';
import { operations } from '../../src/operation/all.ts';
import { invoke } from '../../src/operation/invoke.ts';
import { eventually, makePlace, type SubmitMore, type TestInstance } from '../support/instance.ts';
import { python } from '../support/plugin-program.ts';

const program = python(`
note(command, attempt)
if os.path.exists("../../gate-broken"): fail("the pump leaks")
ok("fine", state_updates={"seen": command})`);

const commands = '{poll: {}, init: {}, health: {type: read}}';
const manifest = `fact_outputs:
  - when: { command: poll }
    from: state_updates
    fact_type: pump.seen`;

async function makePump() {
  const place = await makePlace({ plugins: { pump: { program, commands, manifest } } });
  return { place, instance: await place.start() };
}

/** Calls an operation and checks the result against its documented schema. */
async function ask({ engine }: TestInstance, name: string, input = {}): Promise<JsonOutput> {
  const operation = operations.find((candidate) => candidate.name === name);
  if (operation === undefined) throw new Error(name);
  const context = { engine, principal: ownerOf('cli:ann'), submittedBy: 'cli' as const };
  const output = await invoke(operation, context, input);
  if (output['dry_run'] !== true) {
    expect(operation.output.strict().parse(JSON.parse(JSON.stringify(output)))).toEqual(output);
  }
  return output;
}

async function settled(instance: TestInstance): Promise<void> {
  await eventually('its setup is over', async () =>
    (await instance.ledger.plugins.reviewHealth()).every(({ status }) => status !== 'pending'),
  );
}

describe('plugin health', () => {
  test('runs the command of the plugin once, now, and is remembered', async () => {
    const { place, instance } = await makePump();
    await settled(instance);
    expect(await ask(instance, 'system.status')).toMatchObject({
      plugins: { last_checks: {}, views: [{ plugin: 'pump', state: { seen: 'init' } }] },
      last_jobs: [{ plugin: 'pump', command: 'init', status: 'succeeded' }],
    });
    expect(await ask(instance, 'plugin.health', { plugin: 'pump' })).toMatchObject({
      status: 'healthy',
      reason: null,
      init: { status: 'healthy' },
      check: { status: 'healthy' },
    });
    await place.openGate('broken');
    expect(await ask(instance, 'plugin.health', { plugin: 'pump' })).toMatchObject({
      status: 'unhealthy',
      reason: 'the pump leaks',
      init: { status: 'healthy' },
      check: { status: 'unhealthy', reason: 'the pump leaks' },
    });
    expect(await place.notes()).toEqual(['init 1', 'health 1', 'health 1']);
    expect((await ask(instance, 'system.status'))['plugins']).toMatchObject({
      unhealthy: {},
      last_checks: { pump: 'the pump leaks' },
    });
  });

  test('runs for every plugin that has one with `status --health`', async () => {
    const { place, instance } = await makePump();
    await settled(instance);
    await place.openGate('broken');
    expect((await ask(instance, 'system.status', { health: true }))['plugins']).toMatchObject({
      last_checks: { pump: 'the pump leaks' },
    });
    expect(await place.notes()).toEqual(['init 1', 'health 1']);
  });

  test.each([
    ['PLUGIN_NOT_FOUND', 'pumps', commands],
    ['COMMAND_NOT_FOUND', 'pump', '{poll: {}}'],
  ])('is refused with %s', async (code, plugin, has) => {
    const place = await makePlace({ plugins: { pump: { program, commands: has } } });
    const instance = await place.start();
    await expect(ask(instance, 'plugin.health', { plugin })).rejects.toMatchObject({ code });
  });
});

test('a plugin whose init failed is shown with the reason until an init succeeds', async () => {
  const place = await makePlace({ plugins: { pump: { program, commands } } });
  await place.openGate('broken');
  const instance = await place.start();
  await settled(instance);
  const unhealthy = { pump: 'the pump leaks' };
  expect((await ask(instance, 'system.status'))['plugins']).toMatchObject({ unhealthy });
  const [listed] = (await ask(instance, 'plugin.list'))['plugins'] as JsonOutput[];
  expect(listed).toMatchObject({ name: 'pump', health: 'unhealthy', reason: 'the pump leaks' });
  const check = await ask(instance, 'system.selfcheck');
  expect(check).toMatchObject({ ok: false });
  expect(check['checks']).toContainEqual({
    name: 'health',
    status: 'fail',
    detail: 'The init of the plugin pump failed, so its other jobs wait.',
  });
});

test('an init can be requested by its name or as a command; a running one is enough', async () => {
  const { place, instance } = await makePump();
  await settled(instance);
  expect(await ask(instance, 'plugin.init', { plugin: 'pump', dry_run: true })).toMatchObject({
    dry_run: true,
  });
  const run = await ask(instance, 'plugin.run', { plugin: 'pump', command: 'init', wait: true });
  expect(run).toMatchObject({ command: 'init', status: 'succeeded', submitted_by: 'cli' });
  const response = await ask(instance, 'plugin.init', { plugin: 'pump' });
  await instance.ended(String(response['job_id']));
  expect(await place.notes()).toEqual(['init 1', 'init 1', 'init 1']);
});

test.each([
  ['payload', { payload: { word: 'one' } }],
  ['dedupe_key', { dedupeKey: 'k' }],
  ['run_at', { due: { inMs: 1000 } }],
  ['context', { context: { bag: 1 } }],
])('an init that is asked for with a %s is refused', async (place, more) => {
  const { place: pump, instance } = await makePump();
  await settled(instance);
  const { payload = {}, ...rest }: SubmitMore & { payload?: JsonObject } = more;
  const submitted = instance.submit('pump', payload, { command: 'init', ...rest });
  await expect(submitted).rejects.toMatchObject({ code: 'INPUT_INVALID', place });
  expect(await pump.notes()).toEqual(['init 1']);
});

test('a sound process passes its own examination', async () => {
  const { instance } = await makePump();
  await settled(instance);
  const check = await ask(instance, 'system.selfcheck');
  expect(check).toMatchObject({ ok: true });
  const names = (check['checks'] as JsonOutput[]).map(({ name }) => name);
  expect(names).toEqual([
    'engine',
    'ledger',
    'integrity',
    'clock',
    'disk',
    'configuration',
    'plugins',
    'credentials',
    'schedules',
    'health',
  ]);
});

test('facts and figures tell what was done', async () => {
  const { instance } = await makePump();
  await instance.run('pump');
  await instance.run('pump');
  const { facts } = await ask(instance, 'plugin.facts', { plugin: 'pump', limit: 1 });
  expect(facts).toMatchObject([
    { fact_type: 'pump.seen', command: 'poll', fact: { seen: 'poll' } },
  ]);
  const none = await ask(instance, 'plugin.facts', { plugin: 'pump', fact_type: 'other' });
  expect(none).toMatchObject({ fact_type: 'other', facts: [] });
  const summary = await ask(instance, 'analytics.summary', { window: '1h' });
  expect(summary).toMatchObject({ window: '1h', stats: { succeeded: 3, failed: 0 } });
  expect(summary['commands']).toMatchObject([
    { plugin: 'pump', command: 'init', attempts: 1 },
    { plugin: 'pump', command: 'poll', attempts: 2, succeeded: 2 },
  ]);
  expect(await ask(instance, 'analytics.queue')).toMatchObject({ depth: 0, dead: 0, lanes: [] });
});

test('a reload can be looked at before it is done', async () => {
  const { place, instance } = await makePump();
  await place.vary({ service: { max_workers: 9 } });
  const { plan } = await ask(instance, 'system.reload', { dry_run: true });
  expect(plan).toEqual(['service.max_workers: 4 → 9']);
  expect((await ask(instance, 'system.status'))['generation']).toMatchObject({
    number: 1,
    last_reload: null,
  });
  const done = await ask(instance, 'system.reload');
  expect(done).toMatchObject({ status: 'ok', generation: 2, changes: plan });
  expect((await ask(instance, 'system.status'))['generation']).toMatchObject({
    number: 2,
    config_snapshot_id: done['config_snapshot_id'],
    last_reload: { by: 'cli:ann', refused: null },
  });
  const { snapshots } = await ask(instance, 'config.history');
  expect(snapshots).toMatchObject([
    {
      config_snapshot_id: done['config_snapshot_id'],
      reason: 'reload',
      generation: 2,
      changed: 'service.max_workers: 4 → 9; plugins: pump',
      changes: [{ key: 'service.max_workers', before: '4', after: '9' }],
      changes_left: 0,
      // The plugin's parallelism depends on the number of workers.
      plugins_changed: ['pump'],
    },
    {
      reason: 'start',
      generation: 1,
      compared_with: null,
      changes: [],
      plugins: { pump: expect.any(String) as string },
    },
  ]);
  const one = await ask(instance, 'config.history', { id: done['config_snapshot_id'] });
  expect(one['snapshots']).toMatchObject([
    {
      config: { service: { max_workers: 9 } },
      changed: 'service.max_workers: 4 → 9; plugins: pump',
    },
  ]);
  await expect(ask(instance, 'config.history', { id: 'x' })).rejects.toMatchObject({
    code: 'INPUT_INVALID',
  });
  await place.vary({ service: { spawner: 'node' } });
  await expect(ask(instance, 'system.reload')).rejects.toMatchObject({ code: 'RELOAD_REFUSED' });
});
