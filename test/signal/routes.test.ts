import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import type { Job } from '../../src/job/job.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { databases, eventually, makePlace } from '../support/instance.ts';
import { alwaysFails, python, succeeds } from '../support/plugin-program.ts';

const emits = python('ok(events=payload["events"])');

function targetsOf(jobs: readonly Job[]): string[] {
  return jobs.map(({ plugin, command }) => `${plugin}.${command}`).sort();
}

async function childrenOf(ledger: Ledger, job: Job): Promise<Job[]> {
  return ledger.jobs.list({ parentJobId: job.id, order: 'oldest', limit: 99 });
}

describe.each(databases)('routes on %s', (database) => {
  test('lead each event to every target that wants it', async () => {
    const place = await makePlace({
      database,
      plugins: {
        source: { program: emits },
        first: { program: succeeds, commands: '{handle: {}, store: {}}' },
        second: { program: succeeds },
      },
      routes: [
        { event_type: 'made', to: 'first' },
        { event_type: 'made', to: 'second', from: 'source' },
        { event_type: 'made', to: 'first.store' },
        { event_type: 'made', to: 'second', from: 'somebody-else' },
        { event_type: 'mad', to: 'second', command: 'poll' },
        { event_type: 'Made', to: 'second', command: 'poll' },
      ],
    });
    const { run, ended, ledger, records } = await place.start();
    const events = [
      { type: 'made', payload: { n: 1 } },
      { type: 'made.not', payload: { n: 2 } },
    ];
    const parent = await run('source', { events });
    const children = await childrenOf(ledger, parent);
    expect(targetsOf(children)).toEqual(['first.handle', 'first.store', 'second.handle']);

    const signals = await ledger.signals.list({ jobId: parent.id, limit: 9 });
    expect(signals).toHaveLength(2);
    const [made, unmatched] = ['made', 'made.not'].map((type) =>
      signals.find((signal) => signal.type === type),
    );
    expect(made).toMatchObject({
      source: 'plugin:source',
      data: '{"n":1,"result":"done"}',
      jobAttempt: 1,
      hops: 1,
      correlationId: parent.id,
      causationId: null,
    });
    for (const child of children) {
      expect(child).toMatchObject({
        submittedBy: 'route',
        actor: 'plugin:source',
        sourceEventId: made?.id,
        rootJobId: parent.id,
        hops: 1,
      });
      expect((await ended(child.id)).status).toBe('succeeded');
    }
    expect(new Set(children.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(3);
    const stored = children.find(({ command }) => command === 'store');
    expect(JSON.parse(stored?.payload ?? '')).toEqual({ n: 1, result: 'done' });
    expect(records).toContainEqual(
      expect.objectContaining({
        level: 'debug',
        message: 'no route and no pipeline handles the event',
        type: unmatched?.type,
        job_id: parent.id,
      }),
    );
  });

  test('carry the context of the chain, its root and the cause along', async () => {
    const relay = python('ok(json.dumps(request["context"]), events=[{"type": "next"}])');
    const place = await makePlace({
      database,
      plugins: { source: { program: emits }, relay: { program: relay }, last: { program: relay } },
      routes: [
        { event_type: 'first', to: 'relay' },
        { event_type: 'next', from: 'relay', to: 'last' },
      ],
    });
    const { run, ended, ledger, attempts } = await place.start();
    const context = { trace: 'abc' };
    const root = await run('source', { events: [{ type: 'first' }] }, { context });
    const [relayed] = await childrenOf(ledger, root);
    const middle = await ended(relayed?.id ?? '');
    const [last] = await childrenOf(ledger, middle);
    const end = await ended(last?.id ?? '');
    expect(end).toMatchObject({ plugin: 'last', rootJobId: root.id, hops: 2 });
    const [row] = await attempts(end.id);
    expect(row).toMatchObject({ parentJobId: middle.id, sourceEventId: end.sourceEventId });
    const { result } = JSON.parse(row?.result ?? '') as { result: string };
    expect(JSON.parse(result)).toEqual(context);
    const [signal] = await ledger.signals.list({ jobId: middle.id, limit: 9 });
    expect(signal).toMatchObject({ causationId: middle.sourceEventId, correlationId: root.id });
  });

  test('catch that a breaker opens, in the transaction that opens it', async () => {
    const schedules = [{ every: '100ms' }];
    const settings = {
      schedules,
      retry: { max_attempts: 1 },
      circuit_breaker: { threshold: 2, reset_after: '1h' },
    };
    const place = await makePlace({
      database,
      plugins: {
        worker: { program: alwaysFails, settings },
        alarm: { program: python('ok(json.dumps(request["event"]))') },
      },
      routes: [{ event_type: 'breaker.opened', to: 'alarm' }],
    });
    const { ended, ledger, attempts } = await place.start();
    const [signal] = await eventually('it opens', async () => {
      const found = await ledger.signals.list({ type: 'breaker.opened', limit: 9 });
      return found.length > 0 ? found : undefined;
    });
    const [alarm, ...more] = await ledger.jobs.list({ plugin: 'alarm', limit: 9 });
    expect(more).toEqual([]);
    expect(alarm).toMatchObject({ sourceEventId: signal?.id, runtimeCaused: true });
    expect((await ended(alarm?.id ?? '')).status).toBe('succeeded');
    const [row] = await attempts(alarm?.id ?? '');
    const { result } = JSON.parse(row?.result ?? '') as { result: string };
    expect(JSON.parse(result)).toMatchObject({
      type: 'breaker.opened',
      source: 'ductile',
      payload: { plugin: 'worker', command: 'poll', failure_count: 2 },
    });
  });

  test('catch the death of a job, once, after its last attempt', async () => {
    const place = await makePlace({
      database,
      plugins: {
        worker: { program: alwaysFails, settings: { retry: { max_attempts: 3 } } },
        alarm: { program: python('ok(json.dumps(request["event"]))') },
      },
      routes: [{ event_type: 'job.dead', to: 'alarm' }],
    });
    const { run, ended, ledger, attempts } = await place.start();
    const dead = await run('worker');
    expect(dead).toMatchObject({ status: 'dead', attempt: 3 });
    const [signal, ...more] = await ledger.signals.list({ type: 'job.dead', limit: 9 });
    expect(more).toEqual([]);
    expect(signal).toMatchObject({
      source: 'ductile',
      subjectType: 'job',
      subjectId: dead.id,
      jobId: dead.id,
      jobAttempt: 3,
    });
    const alarms = await childrenOf(ledger, dead);
    expect(alarms).toEqual([
      expect.objectContaining({
        plugin: 'alarm',
        parentJobId: dead.id,
        sourceEventId: signal?.id,
        runtimeCaused: true,
      }),
    ]);
    const alarm = await ended(alarms[0]?.id ?? '');
    const [row] = await attempts(alarm.id);
    const { result } = JSON.parse(row?.result ?? '') as { result: string };
    expect(JSON.parse(result)).toMatchObject({
      type: 'job.dead',
      source: 'ductile',
      event_id: signal?.id,
      payload: {
        job_id: dead.id,
        plugin: 'worker',
        command: 'poll',
        status: 'dead',
        reason: 'retries_exhausted',
        error: 'failure 3',
        attempt: 3,
      },
    });
  });

  test('in a circle end at the limit of hops with an incident', async () => {
    const ping = python('ok(events=[{"type": "ball", "payload": {"n": payload.get("n", 0) + 1}}])');
    const place = await makePlace({
      database,
      service: { max_hops: 5 },
      plugins: { ping: { program: ping }, pong: { program: ping } },
      routes: [
        { event_type: 'ball', from: 'ping', to: 'pong' },
        { event_type: 'ball', from: 'pong', to: 'ping' },
      ],
    });
    const { run, ledger } = await place.start();
    const root = await run('ping');
    const incident = await eventually('the circle is cut', async () => {
      const [found] = await ledger.signals.list({ type: 'incident.loop', limit: 9 });
      return found;
    });
    const jobs = await ledger.jobs.list({ order: 'oldest', limit: 99 });
    expect(jobs.map(({ hops }) => hops)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(jobs.every(({ status }) => status === 'succeeded')).toBe(true);
    const [last] = await ledger.signals.list({ type: 'ball', limit: 1 });
    expect(incident).toMatchObject({
      source: 'ductile',
      subjectType: 'signal',
      subjectId: last?.id,
      jobId: jobs.at(-1)?.id,
      correlationId: root.id,
    });
    expect(JSON.parse(incident.data)).toMatchObject({ type: 'ball', hops: 6, hops_max: 5 });
    // The open incident names the circle and how to break it, and doctor shows that.
    const [open] = await eventually('it is open', async () => {
      const found = await ledger.incidents.list({ kind: 'hops_limit', isOpen: true, limit: 9 });
      return found.length > 0 && found;
    });
    expect(JSON.parse(open?.detail ?? '{}')).toMatchObject({
      evidence: expect.stringMatching(/^routes\[\d\] .*a loop.*: \w+ → \w+ → \w+ /) as string,
      fix: expect.stringContaining('Then acknowledge this one') as string,
    });
    expect(open?.detail).not.toContain('config unset');
  });
});

test('a handler of deaths that dies itself starts no second round', async () => {
  const plugins = {
    worker: { program: alwaysFails, settings: { retry: { max_attempts: 1 } } },
    alarm: { program: alwaysFails, settings: { retry: { max_attempts: 2 } } },
  };
  const routes: JsonObject[] = [{ event_type: 'job.dead', to: 'alarm' }];
  const place = await makePlace({ plugins, routes });
  const { run, ended, ledger } = await place.start();
  const dead = await run('worker');
  const [alarm] = await childrenOf(ledger, dead);
  expect((await ended(alarm?.id ?? '')).status).toBe('dead');
  const signals = await ledger.signals.list({ type: 'job.dead', limit: 9 });
  expect(signals.map(({ subjectId }) => subjectId)).toEqual([alarm?.id, dead.id]);
  expect(await ledger.jobs.list({ limit: 99 })).toHaveLength(2);
});

test('several events of one answer are routed in their order', async () => {
  const place = await makePlace({
    service: { max_workers: 1 },
    plugins: { source: { program: emits }, sink: { program: python('note(payload); ok()') } },
    routes: [{ event_type: 'made', to: 'sink' }],
  });
  const { run, ledger, ended } = await place.start();
  const numbers = Array.from({ length: 20 }, (_none, index) => index);
  const parent = await run('source', {
    events: numbers.map((payload) => ({ type: 'made', payload })),
  });
  const children = await childrenOf(ledger, parent);
  for (const { id } of children) await ended(id);
  expect(await place.notes()).toEqual(numbers.map(String));
  const signals = await ledger.signals.list({ jobId: parent.id, limit: 99 });
  expect(signals.map(({ eventIndex }) => eventIndex).toReversed()).toEqual(numbers);
});
