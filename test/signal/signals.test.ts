/** Reported signals: the work that they start, its actor, and what a replay starts again. */
import { describe, expect, test } from 'vitest';
import type { SignalSubmission } from '../../src/signal/emit.service.ts';
import { ask, pause } from '../support/direct.ts';
import { databases, eventually, makePlace } from '../support/instance.ts';
import { python, succeeds } from '../support/plugin-program.ts';
import { startRun } from '../support/runs.ts';

const paid: SignalSubmission = {
  type: 'order.paid',
  source: 'shop',
  subject: 'order/42',
  data: { amount: 12 },
  actor: 'token:shop',
};

const routes = [
  { event_type: 'order.paid', to: 'mail' },
  { event_type: 'order.paid', from: 'elsewhere', to: 'other' },
];
const thanks = {
  name: 'thanks',
  on: 'order.paid',
  if: { path: 'payload.amount', op: 'gt', value: 10 },
  steps: [{ id: 'thank', uses: 'other.poll' }],
};
const recorder = python('note(json.dumps(request["event"])); ok()');

describe.each(databases)('a signal from outside on %s', (database) => {
  test('goes to its routes and pipelines, and what they emit is of its chain', async () => {
    const emits = python('ok(events=[{"type": "thanks.sent", "payload": {}}])');
    const place = await makePlace({
      database,
      plugins: { mail: { program: recorder }, other: { program: emits } },
      routes,
      pipelines: [thanks],
    });
    const { engine, ledger, ended } = await place.start();
    const occurredAt = '2026-01-02T03:04:05.678Z';
    const { signalId, created } = await engine.signals.emit({ ...paid, occurredAt });
    expect(created).toBe(true);
    const [job, ...others] = await ledger.jobs.list({ plugin: 'mail', limit: 9 });
    expect(others).toEqual([]);
    expect(job).toMatchObject({ sourceEventId: signalId, submittedBy: 'route', actor: 'shop' });
    expect((await ended(job?.id ?? '')).status).toBe('succeeded');
    const [note] = await place.notes();
    expect(JSON.parse(note ?? '')).toMatchObject({
      type: 'order.paid',
      source: 'shop',
      payload: { amount: 12 },
      timestamp: occurredAt,
      event_id: signalId,
    });
    const [run] = await ledger.runs.list({ sourceEventId: signalId, limit: 9 });
    expect((await engine.waitForRun(run?.id ?? '', 20_000)).status).toBe('succeeded');
    const [sent] = await ledger.signals.list({ type: 'thanks.sent', limit: 9 });
    expect(sent).toMatchObject({ correlationId: signalId, causationId: signalId, hops: 2 });
  });

  test('wakes a run that waits for it', async () => {
    const wait = { id: 'until', wait: { signal: 'order.paid' } };
    const place = await makePlace({
      database,
      plugins: { mail: { program: succeeds } },
      pipelines: [{ name: 'waits', steps: [wait, { id: 'then', uses: 'mail.poll' }] }],
    });
    const instance = await place.start();
    const runId = await startRun(instance, 'waits');
    await eventually('it waits', async () =>
      (await instance.ledger.runs.listBranches({ runId, limit: 9 })).some(
        ({ waitsFor }) => waitsFor,
      ),
    );
    await instance.engine.signals.emit(paid);
    expect((await instance.engine.waitForRun(runId, 20_000)).status).toBe('succeeded');
  });

  test('S-05 of a plugin is refused, and of many at once under one key there is one', async () => {
    const place = await makePlace({
      database,
      plugins: { mail: { program: succeeds } },
      routes: routes.slice(0, 1),
    });
    const { engine, ledger } = await place.start();
    await pause(engine);
    await expect(engine.signals.emit({ ...paid, source: 'mail' })).rejects.toMatchObject({
      code: 'INPUT_INVALID',
      place: 'source',
    });
    const many = Array.from({ length: 20 }, () =>
      engine.signals.emit({ ...paid, dedupeKey: 'once' }),
    );
    const answers = await Promise.all(many);
    expect(answers.filter(({ created }) => created)).toHaveLength(1);
    expect(new Set(answers.map(({ signalId }) => signalId)).size).toBe(1);
    expect(await ledger.jobs.list({ plugin: 'mail', limit: 99 })).toHaveLength(1);
  });
});

describe.each(databases)('a replay on %s', (database) => {
  async function open() {
    const place = await makePlace({
      database,
      plugins: { mail: { program: succeeds }, other: { program: succeeds } },
      routes,
      pipelines: [thanks],
    });
    const { engine, ledger } = await place.start();
    await pause(engine);
    for (const amount of [5, 20, 30]) {
      await engine.signals.emit({
        ...paid,
        data: { amount },
        occurredAt: `2026-01-0${amount / 5}T00:00:00.000Z`,
      });
    }
    return { engine, ledger };
  }

  test('starts what handles the signals now, marked, under new keys', async () => {
    const { engine, ledger } = await open();
    const before = await ledger.jobs.list({ plugin: 'mail', limit: 99 });
    const choice = { type: 'order.paid', force: true };
    const { status, result } = await ask(engine, 'signal.replay', choice);
    expect({ status, result }).toEqual({
      status: 'completed',
      result: { signals: 3, jobs: 3, runs: 2, skipped: 0, unhandled: 0, unopened: 0 },
    });
    const again = await ledger.jobs.list({ plugin: 'mail', submittedBy: 'replay', limit: 99 });
    expect(again.map(({ sourceEventId }) => sourceEventId)).toEqual(
      before.map(({ sourceEventId }) => sourceEventId),
    );
    expect(again.every(({ actor }) => actor === 'cli:ann')).toBe(true);
    const keys = [...before, ...again].map(({ idempotencyKey }) => idempotencyKey);
    expect(new Set(keys).size).toBe(6);
    expect(await ledger.signals.list({ type: 'order.paid', limit: 99 })).toHaveLength(3);
    const runs = await ledger.runs.list({ limit: 99 });
    expect(runs.filter(({ submittedBy }) => submittedBy === 'replay')).toHaveLength(2);
  });

  test('can be of one signal, one handler, some time or so many', async () => {
    const { engine, ledger } = await open();
    const [newest] = await ledger.signals.list({ type: 'order.paid', limit: 1 });
    const counts = async (params: object) => {
      const { result } = await ask(engine, 'signal.replay', { force: true, ...params });
      return [result?.['signals'], result?.['jobs'], result?.['runs'], result?.['unhandled']];
    };
    expect(await counts({ signal_id: newest?.id })).toEqual([1, 1, 1, 0]);
    expect(await counts({ type: 'order.paid', handler: 'mail' })).toEqual([3, 3, 0, 0]);
    expect(await counts({ source: 'shop', handler: 'pipeline:thanks' })).toEqual([3, 0, 2, 1]);
    const to = '2026-01-04T00:00:00.000Z';
    expect(await counts({ from: '2026-01-01T00:00:00.000Z', to })).toEqual([1, 1, 0, 0]);
    expect(await counts({ type: 'order.paid', limit: 2 })).toEqual([2, 2, 1, 0]);
    expect(await counts({ type: 'never.seen' })).toEqual([0, 0, 0, 0]);
  });

  test('says first what it would do, and does nothing then', async () => {
    const { engine, ledger } = await open();
    const before = await ledger.jobs.list({ limit: 99 });
    const { plan } = await ask(engine, 'signal.replay', { source: 'shop' }, { dryRun: true });
    expect(plan).toEqual([
      '3 signals will be replayed.',
      'Up to 3 jobs of mail.handle will be queued.',
      'Up to 3 runs of thanks will start.',
      'Handlers that already succeeded or are in progress will be skipped.',
      'The effects of the handlers cannot be undone. Jobs that have not started can be cancelled.',
    ]);
    expect(await ledger.jobs.list({ limit: 99 })).toEqual(before);
  });

  test('is refused without a filter, for an unknown signal or handler', async () => {
    const { engine } = await open();
    const refusal = (params: object) => ask(engine, 'signal.replay', params);
    await expect(refusal({})).rejects.toMatchObject({ code: 'INPUT_INVALID', place: 'params' });
    await expect(refusal({ limit: 5 })).rejects.toMatchObject({ code: 'INPUT_INVALID' });
    await expect(refusal({ signal_id: 'none' })).rejects.toMatchObject({
      code: 'SIGNAL_NOT_FOUND',
    });
    await expect(refusal({ type: 'order.paid', handler: 'male' })).rejects.toMatchObject({
      code: 'INPUT_INVALID',
      place: 'handler',
    });
  });
});
