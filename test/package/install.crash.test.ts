/** The server is killed at every moment of an installation: all of it is there then, or nothing. */
import { noRules } from '../../src/ledger/rules.ts';
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { openLedger } from '../../src/ledger/open.ts';
import {
  databases,
  eventually,
  makePlace,
  type Database,
  type TestPlace,
} from '../support/instance.ts';
import { manifest, listSignalTypes } from '../support/packages.ts';
import { python } from '../support/plugin-program.ts';
import { makeClient, type Client } from '../support/crash/client.ts';
import { launch, type Server } from '../support/crash/server.ts';

const greeter = manifest({
  requires: [{ plugin: 'worker' }],
  plugins: { greeting: { uses: 'worker' } },
  webhooks: [{ id: 'greeting', title: 'Greetings', signal: 'greeting.came', auth_mode: 'github' }],
});
const next = {
  ...greeter,
  version: '1.1.0',
  plugins: { salute: { uses: 'worker' } },
  webhooks: [{ id: 'salute', title: 'Salutes', signal: 'salute.came', auth_mode: 'github' }],
};

function open(database: Database, packages: Record<string, JsonObject> = {}): Promise<TestPlace> {
  return makePlace({
    database,
    plugins: { worker: { program: python('note(request["instance"]); ok()') } },
    packages: { greeter, next, ...packages },
    service: {
      heartbeat_interval: '100ms',
      reap_after: database === 'postgres' ? '1500ms' : '400ms',
    },
  });
}

async function started(place: TestPlace, probe = ''): Promise<{ server: Server; client: Client }> {
  const server = launch(place.directory, probe);
  const { control } = await server.ready;
  return { server, client: makeClient(() => control) };
}

const install = (client: Client, version: string) =>
  client.post('/packages/greeter/install', { version }).catch(() => undefined);

/** Reads the ledger of the installation, without a service. */
async function standing(place: TestPlace) {
  const ledger = await openLedger(place.config.state, noRules);
  try {
    const rows = await ledger.installations.list({ withEnded: true });
    const directives = await ledger.directives.list({ limit: 10 });
    return {
      installations: rows.map(({ version, status }) => `${version} ${status}`),
      webhooks: (await ledger.webhooks.list()).map(({ id }) => id),
      directives: directives.map(({ type, status }) => `${type} ${status}`),
      signals: (await listSignalTypes(ledger)).filter((type) =>
        /^(package|directive)\./.test(type),
      ),
      faults: await ledger.check(),
    };
  } finally {
    await ledger.close();
  }
}

const trail = [
  'package.install.requested',
  'directive.requested',
  'directive.started',
  'package.install.started',
  'package.install.completed',
  'directive.completed',
];

const whole = {
  installations: ['1.0.0 installed'],
  webhooks: ['greeter-greeting'],
  directives: ['package.install completed'],
  signals: trail,
  faults: [],
};
const nothing = { installations: [], webhooks: [], directives: [], signals: [], faults: [] };

describe.each(databases)('an installation on %s whose server is killed', (database) => {
  test.each([
    ['install.before-commit', nothing],
    ['install.after-commit', whole],
    ['reload.before-swap', whole],
  ])(
    'P-09 at %s is nothing or all of it, and done once when asked for again',
    async (probe, left) => {
      const place = await open(database);
      const first = await started(place, `${probe}:kill`);
      await install(first.client, '1.0.0');
      expect(await first.server.exited).toMatchObject({ signal: 'SIGKILL' });
      expect(await standing(place)).toEqual(left);
      const second = await started(place);
      const answer = await install(second.client, '1.0.0');
      expect(answer?.status).toBe(200);
      const ran = await second.client.post('/plugin/greeting/poll', { payload: {} });
      expect(ran.status).toBeLessThan(300);
      await eventually('it works', async () => (await place.notes()).includes('greeting'));
      expect(await second.server.stop()).toEqual({ code: 0, signal: null });
      expect(await standing(place)).toEqual(whole);
    },
  );

  test('during an upgrade has the old version or the new one, never parts of both', async () => {
    for (const [probe, plugin] of [
      ['install.before-commit:kill', 'greeting'],
      ['install.after-commit:kill', 'salute'],
    ] as const) {
      const place = await open(database);
      const calm = await started(place);
      await install(calm.client, '1.0.0');
      await calm.server.stop();
      const first = await started(place, probe);
      await first.client.post('/packages/greeter/upgrade').catch(() => undefined);
      expect(await first.server.exited).toMatchObject({ signal: 'SIGKILL' });
      const second = await started(place);
      const { body } = await second.client.get('/plugins');
      const names = (body['plugins'] as { name: string }[]).map(({ name }) => name);
      expect(names.filter((name) => name !== 'worker')).toEqual([plugin]);
      await second.server.stop();
      const { webhooks, faults } = await standing(place);
      expect({ webhooks, faults }).toEqual({ webhooks: [`greeter-${plugin}`], faults: [] });
    }
  });

  test('after a signal was accepted does the work of its handlers once', async () => {
    const keeper = manifest({
      slug: 'keeper',
      handlers: [{ on: 'disk.full', directive: 'plugin.disable', params: { plugin: 'worker' } }],
    });
    const place = await open(database, { keeper });
    const calm = await started(place);
    await calm.client.post('/packages/keeper/install');
    await calm.server.stop();
    const first = await started(place, 'enqueue.after-commit:kill');
    const signal = { type: 'disk.full', source: 'monitor', data: {}, dedupe_key: 'once' };
    await first.client.post('/signals', signal).catch(() => undefined);
    expect(await first.server.exited).toMatchObject({ signal: 'SIGKILL' });
    const second = await started(place);
    const again = await second.client.post('/signals', signal);
    expect(again.body).toMatchObject({ created: false });
    await eventually('it is done', async () => {
      const { body } = await second.client.get('/directives?type=plugin.disable');
      const [asked] = body['directives'] as { status: string }[];
      return asked?.status === 'completed';
    });
    await second.server.stop();
    const { directives, faults } = await standing(place);
    expect(directives.filter((one) => one.startsWith('plugin.'))).toEqual([
      'plugin.disable completed',
    ]);
    expect(faults).toEqual([]);
  });
});
