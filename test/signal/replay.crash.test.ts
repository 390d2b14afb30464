/** A service that is killed during a replay: the next one starts exactly the rest. */
import { noRules } from '../../src/ledger/rules.ts';
import { describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { makeId } from '../../src/base/ids.ts';
import { openLedger } from '../../src/ledger/open.ts';
import {
  databases,
  eventually,
  makePlace,
  type Database,
  type TestPlace,
} from '../support/instance.ts';
import { succeeds } from '../support/plugin-program.ts';
import { makeClient, type Client } from '../support/crash/client.ts';
import { launch } from '../support/crash/server.ts';

const STEPS = 8;
const TOTAL = STEPS * limits.bulkStepJobs;

/** A place with signals that one route handles; nothing starts there. */
async function makeSignals(database: Database): Promise<TestPlace> {
  const place = await makePlace({
    database,
    plugins: { mail: { program: succeeds } },
    routes: [{ event_type: 'order.paid', to: 'mail' }],
    service: { reap_after: '300ms' },
  });
  const ledger = await openLedger(place.config.state, noRules);
  await ledger.meta.write('paused', '1');
  await ledger.signals.emit(
    Array.from({ length: TOTAL }, () => {
      const id = makeId();
      const data = '{"n":1}';
      const signal = { id, type: 'order.paid', source: 'shop', data, hops: 1 };
      return { signal: { ...signal, correlationId: id }, jobs: [], runs: [] };
    }),
  );
  await ledger.close();
  return place;
}

interface Replay {
  readonly directive_id: string;
  readonly status: string;
  readonly attempt: number;
  readonly result: unknown;
}

async function findReplay(client: Client): Promise<Replay | undefined> {
  const { body } = await client.get('/directives?type=signal.replay');
  const [one] = body['directives'] as unknown as Replay[];
  return one;
}

/** Each signal has one job, and no more. */
async function expectOneJobEach({ config }: TestPlace): Promise<void> {
  const ledger = await openLedger(config.state, noRules);
  const jobs = await ledger.jobs.list({ plugin: 'mail', limit: 2 * TOTAL });
  await ledger.close();
  expect(jobs).toHaveLength(TOTAL);
  expect(new Set(jobs.map(({ sourceEventId }) => sourceEventId)).size).toBe(TOTAL);
}

/** Starts a server that is killed at a step of the replay, which it requests itself if `asks`. */
async function dieInReplay(place: TestPlace, probe: string, asks: boolean): Promise<void> {
  const victim = launch(place.directory, probe);
  if (asks) {
    const { control } = await victim.ready;
    await makeClient(() => control)
      .post('/signals/replay', { type: 'order.paid', force: true })
      .catch(() => 'it dies before it responds');
  } else await victim.ready.catch(() => 'it may die before it is ready');
  expect(await victim.exited).toEqual({ code: null, signal: 'SIGKILL' });
}

describe.each(databases)('a server on %s that is killed in a replay', (database) => {
  test.each(['before-commit', 'after-commit'])(
    'at a step, %s: none is left out or started twice',
    async (moment) => {
      const place = await makeSignals(database);
      await dieInReplay(place, `enqueue.${moment}:kill:2`, true);
      const next = launch(place.directory);
      const ready = await next.ready;
      const client = makeClient(() => ready.control);
      const directive = await eventually('the replay has ended', async () => {
        const one = await findReplay(client);
        return one?.status === 'completed' && one;
      });
      expect(directive).toMatchObject({ attempt: 2, result: { signals: TOTAL, jobs: TOTAL } });
      await next.stop();
      await expectOneJobEach(place);
    },
  );

  test('more often than it has attempts: each step renews them', async () => {
    const place = await makeSignals(database);
    for (let kill = 0; kill <= limits.directiveAttemptsMax; kill += 1) {
      await dieInReplay(place, 'enqueue.before-commit:kill:2', kill === 0);
    }
    const next = launch(place.directory);
    const ready = await next.ready;
    const client = makeClient(() => ready.control);
    const directive = await eventually('the replay has ended', async () => {
      const one = await findReplay(client);
      return (one?.status === 'completed' || one?.status === 'failed') && one;
    });
    expect(directive).toMatchObject({ status: 'completed', result: { signals: TOTAL } });
    await next.stop();
    await expectOneJobEach(place);
  });

  test('at the same step until it is given up: a new replay continues it', async () => {
    const place = await makeSignals(database);
    await dieInReplay(place, 'enqueue.before-commit:kill:2', true);
    for (let kill = 1; kill < limits.directiveAttemptsMax; kill += 1) {
      await dieInReplay(place, 'enqueue.before-commit:kill:1', false);
    }
    const next = launch(place.directory);
    const ready = await next.ready;
    const client = makeClient(() => ready.control);
    const failed = await eventually('the replay was given up', async () => {
      const one = await findReplay(client);
      return one?.status === 'failed' && one;
    });
    const { body: shown } = await client.get(`/directives/${failed.directive_id}`);
    expect(JSON.stringify(shown)).toContain(`--resume ${failed.directive_id}`);
    const again = await client.post('/signals/replay', { resume: failed.directive_id });
    expect(again).toMatchObject({ status: 200, body: { signals: TOTAL, jobs: TOTAL } });
    const twice = await client.post('/signals/replay', { resume: failed.directive_id });
    expect(twice.body['directive_id']).toBe(again.body['directive_id']);
    await next.stop();
    await expectOneJobEach(place);
  });
});
