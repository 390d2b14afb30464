/** Pipelines from configuration to the end of their runs, with real processes. */
import { describe, expect, test } from 'vitest';
import { databases, eventually, makePlace } from '../support/instance.ts';
import { python, succeeds } from '../support/plugin-program.ts';
import { finish, outputOf, startRun, stepsOf } from '../support/runs.ts';

/** Emits the events of its input, or returns its input. */
const worker = python(`
note(command, json.dumps(request, sort_keys=True))
if payload.get("fails"):
    fail("as it was told")
events = [{"type": "made", "payload": made} for made in payload.get("emit", [])]
ok(f"{command} {request.get('step_id')}", events=events)`);

const tells = python(
  'note(payload["item"], payload["index"], payload["from"]); ok(payload["item"])',
);

describe.each(databases)('a run on %s', (database) => {
  test('goes from step to step, and each plugin knows where it is', async () => {
    const place = await makePlace({
      database,
      plugins: { worker: { program: worker, commands: '{first: {}, second: {}, handle: {}}' } },
      pipelines: [
        {
          name: 'chain',
          steps: [
            { id: 'one', uses: 'worker.first' },
            { id: 'two', uses: 'worker.second', with: { greeting: 'hello {payload.name}' } },
            { id: 'three', uses: 'worker' },
          ],
        },
      ],
    });
    const instance = await place.start();
    const run = await finish(instance, 'chain', { name: 'ann' });
    expect(run).toMatchObject({ status: 'succeeded', pipeline: 'chain', haltReason: null });
    expect(outputOf(run)).toMatchObject({ name: 'ann', result: 'handle three' });
    const steps = await stepsOf(instance, run.id);
    expect(steps.map(({ node, status, nextNode }) => [node, status, nextNode])).toEqual([
      ['one', 'succeeded', 'two'],
      ['two', 'succeeded', 'three'],
      ['three', 'succeeded', null],
    ]);
    const requests = (await place.notes()).map(
      (line) => JSON.parse(line.slice(line.indexOf(' '))) as Record<string, unknown>,
    );
    expect(requests.map(({ run_id: id, step_id: step }) => [id, step])).toEqual([
      [run.id, 'one'],
      [run.id, 'two'],
      [run.id, 'three'],
    ]);
    expect(requests[1]?.['payload']).toMatchObject({ greeting: 'hello ann', result: 'first one' });
    expect(requests[2]?.['event']).toMatchObject({ payload: { result: 'second two' } });
    expect(new Set(requests.map((one) => one['idempotency_key'])).size).toBe(3);
    expect(await instance.ledger.check()).toEqual([]);
  });

  test('is started by a matching event, with its payload', async () => {
    const place = await makePlace({
      database,
      plugins: { source: { program: worker }, worker: { program: worker } },
      pipelines: [
        { name: 'wanted', on: 'made', steps: [{ id: 'only', uses: 'worker.poll' }] },
        {
          name: 'choosy',
          on: 'made',
          if: { path: 'payload.n', op: 'gt', value: 1 },
          steps: [{ id: 'only', uses: 'worker.poll' }],
        },
        { name: 'other', on: 'made', from_plugin: 'worker', steps: [{ uses: 'worker.poll' }] },
        {
          name: 'confused',
          on: 'made',
          if: { path: 'payload.text', op: 'gt', value: 1 },
          steps: [{ uses: 'worker.poll' }],
        },
      ],
    });
    const instance = await place.start();
    const { ledger, records } = instance;
    const emit = [
      { n: 1, text: 'one' },
      { n: 2, text: 'two' },
    ];
    const cause = await instance.run('source', { emit });
    const runs = await eventually('all have ended', async () => {
      const found = await ledger.runs.list({ limit: 10 });
      return found.every(({ status }) => status === 'succeeded') ? found : undefined;
    });
    const seen = runs.map(({ pipeline, payload }) => [pipeline, JSON.parse(payload)]);
    expect(seen).toHaveLength(3);
    expect(seen).toEqual(
      expect.arrayContaining([
        ['wanted', { ...emit[0], result: 'poll None' }],
        ['wanted', { ...emit[1], result: 'poll None' }],
        ['choosy', { ...emit[1], result: 'poll None' }],
      ]),
    );
    const signals = await ledger.signals.list({ jobId: cause.id, limit: 9 });
    for (const run of runs) {
      expect(run).toMatchObject({
        parentJobId: cause.id,
        rootJobId: cause.id,
        submittedBy: 'route',
      });
      expect(signals.map(({ id }) => id)).toContain(run.sourceEventId);
    }
    const jobs = await ledger.jobs.list({ rootJobId: cause.id, limit: 99 });
    expect(jobs).toHaveLength(4);
    const warned = records.filter(
      ({ level, pipeline }) => level === 'warn' && pipeline === 'confused',
    );
    expect(warned).toHaveLength(2);
  });

  test('fans out and joins in the order of the elements, wide or not', async () => {
    const place = await makePlace({
      database,
      plugins: {
        tells: { program: tells, commands: '{poll: {}}' },
        last: { program: succeeds },
      },
      pipelines: [
        {
          name: 'each',
          steps: [
            {
              id: 'all',
              foreach: 'payload.items',
              steps: [{ id: 'tell', uses: 'tells.poll' }],
            },
            { id: 'after', uses: 'last.poll' },
          ],
        },
      ],
    });
    const instance = await place.start();
    for (const width of [0, 7, 130]) {
      const items = Array.from({ length: width }, (_, index) => `${width}-${index}`);
      const run = await finish(instance, 'each', { items, from: 'before' });
      expect(run).toMatchObject({ status: 'succeeded', haltMessage: null });
      const output = outputOf(run) as { all: { result: string }[]; from: string };
      expect(output.all.map(({ result }) => result)).toEqual(items);
      expect(output.from).toBe('before');
      const lines = (await place.notes()).filter((line) => line.startsWith(`${width}-`));
      expect(lines.sort()).toEqual(items.map((item, index) => `${item} ${index} before`).sort());
    }
    expect(await instance.ledger.check()).toEqual([]);
  });

  test('halts with the reason when a step fails, and records it durably', async () => {
    const place = await makePlace({
      database,
      plugins: { worker: { program: worker }, alarm: { program: worker } },
      pipelines: [
        {
          name: 'doomed',
          on_halt: 'alarm.handle',
          steps: [
            { id: 'good', uses: 'worker.poll' },
            { id: 'bad', uses: 'worker.poll', with: { fails: true }, retry: { max_attempts: 2 } },
            { id: 'never', uses: 'worker.poll' },
          ],
        },
        {
          name: 'patient',
          steps: [
            {
              id: 'bad',
              uses: 'worker.poll',
              with: { fails: true },
              retry: { max_attempts: 1 },
              on_error: 'continue',
            },
            { id: 'then', uses: 'worker.poll', with: { fails: false } },
          ],
        },
      ],
    });
    const instance = await place.start();
    const run = await finish(instance, 'doomed', {});
    expect(run).toMatchObject({
      status: 'halted',
      haltReason: 'retries_exhausted',
      haltedAtStep: 'bad',
    });
    const steps = await stepsOf(instance, run.id);
    expect(steps.map(({ node, status }) => [node, status])).toEqual([
      ['good', 'succeeded'],
      ['bad', 'failed'],
    ]);
    const alarm = await eventually('the alarm was raised', async () => {
      const [job] = await instance.ledger.jobs.list({ plugin: 'alarm', limit: 1 });
      return job?.status === 'succeeded' ? job : undefined;
    });
    expect(JSON.parse(alarm.payload)).toMatchObject({ run_id: run.id, pipeline: 'doomed' });
    const [halted] = await instance.ledger.signals.list({ type: 'run.halted', limit: 1 });
    expect(halted?.subjectId).toBe(run.id);

    const patient = await finish(instance, 'patient', {});
    expect(patient.status).toBe('succeeded');
    expect(outputOf(patient)).toMatchObject({ error: { reason: 'attempt_failed' } });
  });

  test('has its own time and budget for a step', async () => {
    const slow = python('time.sleep(30); ok()');
    const place = await makePlace({
      database,
      plugins: { slow: { program: slow, settings: { timeouts: { poll: '60s' } } } },
      pipelines: [
        {
          name: 'hurried',
          steps: [
            {
              id: 'slow',
              uses: 'slow.poll',
              timeout: '150ms',
              retry: { max_attempts: 2, backoff_base: '5ms' },
            },
          ],
        },
      ],
    });
    const instance = await place.start();
    const run = await finish(instance, 'hurried');
    expect(run).toMatchObject({ status: 'halted', haltReason: 'timeout' });
    const [step] = await stepsOf(instance, run.id);
    // The output of its program within its time is not checked.
    const attempts = await instance.attempts(step?.jobId ?? 'none');
    expect(attempts.map(({ attempt, cause }) => [attempt, cause])).toEqual([
      [1, 'timeout'],
      [2, 'timeout'],
    ]);
  });

  test('waits for time and for signals without a job, even across a restart', async () => {
    const place = await makePlace({
      database,
      plugins: { source: { program: worker }, last: { program: worker } },
      pipelines: [
        {
          name: 'waits',
          steps: [
            { id: 'rest', wait: '100ms' },
            { id: 'news', wait: { signal: 'made', if: { path: 'signal.n', op: 'eq', value: 2 } } },
            { id: 'then', uses: 'last.poll' },
          ],
        },
      ],
    });
    const first = await place.start();
    const runId = await startRun(first, 'waits', {});
    const waitsForNews = async () => {
      const steps = await first.ledger.runs.listSteps({ runId, limit: 9 });
      return steps.some(({ node, status }) => node === 'news' && status === 'waiting');
    };
    await eventually('it waits for the signal', waitsForNews);
    await first.close();
    const second = await place.start();
    await second.run('source', { emit: [{ n: 1 }, { n: 2 }] });
    const run = await second.engine.waitForRun(runId, 15_000);
    expect(run.status).toBe('succeeded');
    expect(outputOf(run)).toMatchObject({ news: { n: 2 } });
    expect(await second.ledger.check()).toEqual([]);
  });

  test('waits for its turn if the concurrency limit is reached', async () => {
    const gated = python('note("begin", payload["n"]); wait_for(str(payload["n"])); ok()');
    const place = await makePlace({
      database,
      plugins: { gated: { program: gated } },
      pipelines: [
        {
          name: 'narrow',
          concurrency: { key: '{payload.customer}', limit: 1 },
          steps: [{ id: 'only', uses: 'gated.poll' }],
        },
      ],
    });
    const instance = await place.start();
    const { ledger, engine } = instance;
    const a1 = await startRun(instance, 'narrow', { customer: 'a', n: 1 });
    await eventually('the first runs', async () => (await place.notes()).length === 1);
    const a2 = await startRun(instance, 'narrow', { customer: 'a', n: 2 });
    const b3 = await startRun(instance, 'narrow', { customer: 'b', n: 3 });
    await eventually('the other customer runs', async () => (await place.notes()).length === 2);
    expect((await ledger.runs.find(a2))?.status).toBe('queued');
    await place.openGate('2');
    await place.openGate('3');
    expect((await engine.waitForRun(b3, 15_000)).status).toBe('succeeded');
    expect((await ledger.runs.find(a2))?.status).toBe('queued');
    await place.openGate('1');
    expect((await engine.waitForRun(a1, 15_000)).status).toBe('succeeded');
    expect((await engine.waitForRun(a2, 15_000)).status).toBe('succeeded');
    expect(await place.notes()).toEqual(['begin 1', 'begin 3', 'begin 2']);
  });

  test('carries its baggage to every step and to what its events start', async () => {
    const place = await makePlace({
      database,
      plugins: { worker: { program: worker }, last: { program: worker } },
      pipelines: [
        {
          name: 'carries',
          steps: [
            { id: 'one', uses: 'worker.poll', baggage: { 'origin.name': 'payload.name' } },
            { id: 'two', uses: 'last.poll' },
          ],
        },
      ],
    });
    const instance = await place.start();
    const run = await finish(instance, 'carries', { name: 'ann' }, { tenant: 'x' });
    expect(run.status).toBe('succeeded');
    const contexts = (await place.notes()).map(
      (line) => (JSON.parse(line.slice(line.indexOf(' '))) as Record<string, unknown>)['context'],
    );
    const whole = { tenant: 'x', origin: { name: 'ann' } };
    expect(contexts).toEqual([whole, whole]);
  });
});
