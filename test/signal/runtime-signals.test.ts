/** Routes and pipelines can handle the service's own signals like any other. */
import { describe, expect, test } from 'vitest';
import { runtimePayloadKeys } from '../../src/signal/signal.ts';
import { resume } from '../support/direct.ts';
import { databases, eventually, makePlace } from '../support/instance.ts';
import { python, succeeds } from '../support/plugin-program.ts';
import { finish, startRun } from '../support/runs.ts';

const once = { retry: { max_attempts: 1 } };
const fails = { program: python('fail("as always")'), settings: once };
const doomed = { name: 'doomed', steps: [{ id: 'bad', uses: 'worker.poll' }] };

describe.each(databases)('a halt on %s', (database) => {
  test('goes to the routes and pipelines that wait for it', async () => {
    const place = await makePlace({
      database,
      plugins: {
        worker: fails,
        alarm: { program: python('note(json.dumps(request["event"]["payload"])); ok()') },
        nurse: { program: succeeds },
      },
      routes: [{ event_type: 'run.halted', to: 'alarm' }],
      pipelines: [
        doomed,
        {
          name: 'care',
          on: 'run.halted',
          if: { path: 'payload.pipeline', op: 'eq', value: 'doomed' },
          steps: [{ id: 'look', uses: 'nurse.poll' }],
        },
      ],
    });
    const instance = await place.start();
    const { ledger } = instance;
    const run = await finish(instance, 'doomed');
    expect(run.status).toBe('halted');
    const [signal] = await ledger.signals.list({ type: 'run.halted', limit: 9 });
    const [care] = await ledger.runs.list({ pipeline: 'care', limit: 9 });
    expect(care).toMatchObject({ sourceEventId: signal?.id, hops: 1, runtimeCaused: true });
    expect(JSON.parse(care?.payload ?? '')).toMatchObject({ run_id: run.id, pipeline: 'doomed' });
    expect((await instance.engine.waitForRun(care?.id ?? '', 20_000)).status).toBe('succeeded');
    const [alarm] = await ledger.jobs.list({ plugin: 'alarm', limit: 9 });
    expect(alarm).toMatchObject({ sourceEventId: signal?.id, rootJobId: run.rootJobId });
    await instance.ended(alarm?.id ?? '');
    const [told] = await place.notes();
    expect(JSON.parse(told ?? '')).toMatchObject({ run_id: run.id, halted_at_step: 'bad' });
  });

  test('a signal about a revived halt is emitted and starts nothing', async () => {
    const place = await makePlace({
      database,
      plugins: { worker: fails },
      pipelines: [
        doomed,
        { name: 'care', on: 'run.halted', steps: [{ id: 'look', uses: 'worker.poll' }] },
      ],
    });
    const instance = await place.start();
    await finish(instance, 'doomed');
    const runs = await eventually('both have halted', async () => {
      const found = await instance.ledger.runs.list({ limit: 9 });
      return found.every(({ status }) => status === 'halted') ? found : undefined;
    });
    expect(runs.map(({ pipeline }) => pipeline)).toEqual(['care', 'doomed']);
    expect(await instance.ledger.signals.list({ type: 'run.halted', limit: 9 })).toHaveLength(2);
  });

  test('is handled with the tries of the plugin that handles it', async () => {
    const place = await makePlace({
      database,
      plugins: {
        worker: fails,
        alarm: { program: succeeds, settings: { retry: { max_attempts: 7 } } },
      },
      pipelines: [{ ...doomed, on_halt: 'alarm.handle' }],
    });
    const instance = await place.start();
    await finish(instance, 'doomed');
    const [alarm] = await instance.ledger.jobs.list({ plugin: 'alarm', limit: 9 });
    expect(alarm?.maxAttempts).toBe(7);
  });
});

describe.each(databases)('a pipeline on %s', (database) => {
  test('is started by a breaker that opens', async () => {
    const settings = {
      schedules: [{ every: '100ms' }],
      ...once,
      circuit_breaker: { threshold: 1, reset_after: '1h' },
    };
    const place = await makePlace({
      database,
      plugins: { worker: { ...fails, settings }, nurse: { program: succeeds } },
      pipelines: [{ name: 'care', on: 'breaker.opened', steps: [{ uses: 'nurse.poll' }] }],
    });
    const { ledger } = await place.start();
    const care = await eventually('it has ended', async () => {
      const [run] = await ledger.runs.list({ pipeline: 'care', limit: 9 });
      return run?.status === 'succeeded' ? run : undefined;
    });
    const [signal] = await ledger.signals.list({ type: 'breaker.opened', limit: 9 });
    expect(care).toMatchObject({ sourceEventId: signal?.id, runtimeCaused: true });
    expect(JSON.parse(care.payload)).toMatchObject({ plugin: 'worker', command: 'poll' });
  });

  test('is started by the end of a directive, and ends the wait of another at once', async () => {
    const place = await makePlace({
      database,
      service: { poll_interval: '1h' },
      plugins: { nurse: { program: succeeds } },
      pipelines: [
        { name: 'note', on: 'directive.completed', steps: [{ uses: 'nurse.poll' }] },
        { name: 'patient', steps: [{ wait: { signal: 'directive.completed' } }] },
      ],
    });
    const instance = await place.start();
    const waiting = await startRun(instance, 'patient');
    await resume(instance.engine);
    const run = await instance.engine.waitForRun(waiting, 20_000);
    expect(run.status).toBe('succeeded');
    const [note] = await instance.ledger.runs.list({ pipeline: 'note', limit: 9 });
    expect((await instance.engine.waitForRun(note?.id ?? '', 20_000)).status).toBe('succeeded');
  });
});

test('the payloads of signals of the runtime have the members that templates are checked against', async () => {
  const settings = {
    schedules: [{ every: '100ms' }],
    ...once,
    circuit_breaker: { threshold: 1, reset_after: '300ms' },
  };
  const moody = python(
    'ok() if os.path.exists("../../gate-good") else fail("as always", retry=False)',
  );
  const place = await makePlace({
    plugins: { worker: fails, moody: { program: moody, settings } },
    pipelines: [doomed, { name: 'asks', steps: [{ id: 'sure', approve: 'Really?' }] }],
  });
  const instance = await place.start();
  await finish(instance, 'doomed');
  await startRun(instance, 'asks');
  await eventually('the breaker is open', async () => {
    return (await instance.ledger.signals.list({ type: 'breaker.opened', limit: 1 })).length > 0;
  });
  await place.openGate('good');
  for (const type of Object.keys(runtimePayloadKeys)) {
    if (type === 'job.succeeded') continue;
    const signal = await eventually(`there is a signal ${type}`, async () => {
      instance.engine.lookForIncidents();
      return (await instance.ledger.signals.list({ type, limit: 1 }))[0];
    });
    const payload = JSON.parse(signal.data) as Record<string, unknown>;
    expect([type, runtimePayloadKeys[type]]).toEqual([
      type,
      expect.arrayContaining(Object.keys(payload)),
    ]);
    expect([type, payload['message']]).toEqual([type, expect.stringMatching(/\w/)]);
  }
});
