import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { databases, eventually, makePlace } from '../support/instance.ts';
import { alwaysFails, python, succeeds } from '../support/plugin-program.ts';

const emits = python('ok(events=payload["events"])');
const keyed: JsonObject = { type: 'made', payload: {}, dedupe_key: 'order-7' };

describe.each(databases)('a dedupe key on %s', (database) => {
  test('from an event is inherited, and the second job for a target is dropped with a log line', async () => {
    const place = await makePlace({
      database,
      plugins: {
        source: { program: emits },
        first: { program: succeeds },
        second: { program: succeeds },
      },
      routes: [
        { event_type: 'made', to: 'first' },
        { event_type: 'made', to: 'second' },
      ],
    });
    const { run, ended, ledger, records } = await place.start();
    const parent = await run('source', { events: [keyed] });
    const children = await ledger.jobs.list({ parentJobId: parent.id, order: 'oldest', limit: 9 });
    expect(children.map(({ plugin, dedupeKey }) => [plugin, dedupeKey])).toEqual([
      ['first', 'order-7'],
      ['second', 'order-7'],
    ]);
    for (const { id } of children) expect((await ended(id)).status).toBe('succeeded');

    const again = await run('source', { events: [keyed] });
    expect(await ledger.jobs.list({ parentJobId: again.id, limit: 9 })).toEqual([]);
    expect(await ledger.signals.list({ jobId: again.id, limit: 9 })).toHaveLength(1);
    const drops = records.filter(({ message }) => message.startsWith('dropped'));
    expect(drops.map(({ level, dedupe_key }) => [level, dedupe_key])).toEqual([
      ['info', 'order-7'],
      ['info', 'order-7'],
    ]);
    const existing = new Set(drops.map((drop) => drop['existing_job_id']));
    expect(existing).toEqual(new Set(children.map(({ id }) => id)));
  });

  test('within one answer lets only the first event through', async () => {
    const place = await makePlace({
      database,
      plugins: { source: { program: emits }, first: { program: succeeds } },
      routes: [{ event_type: 'made', to: 'first' }],
    });
    const { run, ledger } = await place.start();
    const parent = await run('source', { events: [keyed, keyed, { ...keyed, dedupe_key: 'x' }] });
    const children = await ledger.jobs.list({ parentJobId: parent.id, order: 'oldest', limit: 9 });
    expect(children.map(({ dedupeKey }) => dedupeKey)).toEqual(['order-7', 'x']);
  });

  test('from an event holds for the runs that it starts as well', async () => {
    const steps = [{ id: 'work', uses: 'first.poll' }];
    const place = await makePlace({
      database,
      plugins: { source: { program: emits }, first: { program: succeeds } },
      pipelines: [
        { name: 'one', on: 'made', steps },
        { name: 'two', on: 'made', steps },
      ],
    });
    const { run, ledger, engine, records } = await place.start();
    await run('source', { events: [keyed, keyed] });
    const begun = await ledger.runs.list({ limit: 9 });
    expect(begun.toReversed().map(({ pipeline, dedupeKey }) => [pipeline, dedupeKey])).toEqual([
      ['one', 'order-7'],
      ['two', 'order-7'],
    ]);
    for (const { id } of begun) {
      expect((await engine.waitForRun(id, 20_000)).status).toBe('succeeded');
    }
    await run('source', { events: [keyed] });
    expect(await ledger.runs.list({ limit: 9 })).toHaveLength(2);
    const drops = records.filter(({ message }) => message.startsWith('dropped'));
    expect(drops).toHaveLength(4);
    const existing = new Set(drops.map((drop) => drop['existing_run_id']));
    expect(existing).toEqual(new Set(begun.map(({ id }) => id)));
    await run('source', { events: [{ ...keyed, dedupe_key: 'order-8' }] });
    expect(await ledger.runs.list({ limit: 9 })).toHaveLength(4);
  });

  test('is free again when its job failed for good', async () => {
    const settings = { retry: { max_attempts: 1 } };
    const plugins = { worker: { program: alwaysFails, settings } };
    const place = await makePlace({ database, plugins });
    const { run, ended, submit } = await place.start();
    const first = await run('worker', {}, { dedupeKey: 'k' });
    const second = await ended(await submit('worker', {}, { dedupeKey: 'k' }));
    expect(second.id).not.toBe(first.id);
    expect(second.status).toBe('dead');
  });

  test('from a submission that was done before returns the job that did it', async () => {
    const place = await makePlace({ database, plugins: { worker: { program: succeeds } } });
    const { run, engine } = await place.start();
    const done = await run('worker', {}, { dedupeKey: 'k' });
    const submission = { plugin: 'worker', command: 'poll', payload: {}, actor: 'test' };
    const again = await engine.submit({ ...submission, submittedBy: 'cli', dedupeKey: 'k' });
    expect(again).toMatchObject({ duplicateOf: done.id, dedupeKey: 'k' });
    const other = { ...submission, command: 'handle', submittedBy: 'cli', dedupeKey: 'k' } as const;
    expect(await engine.submit(other)).not.toHaveProperty('duplicateOf');
  });

  test('from a submission with its own duration is held by a running job', async () => {
    const program = python('wait_for("go")\nok()');
    const place = await makePlace({ database, plugins: { worker: { program } } });
    const { engine, submit, ended } = await place.start();
    const running = await submit('worker', {}, { dedupeKey: 'k' });
    const request = { plugin: 'worker', command: 'poll', payload: {}, actor: 'test' };
    const wish = { ...request, submittedBy: 'api', dedupeKey: 'k' } as const;
    const once = await engine.submit({ ...wish, dedupeTtlMs: 60_000 });
    expect(once).toMatchObject({ duplicateOf: running });
    const later = await engine.submit(wish);
    expect(later).not.toHaveProperty('duplicateOf');
    await place.openGate('go');
    expect((await ended(running)).status).toBe('succeeded');
    expect((await ended(later.jobId)).status).toBe('succeeded');
  });

  test('is released after its time', async () => {
    const place = await makePlace({
      database,
      service: { dedupe_ttl: '150ms' },
      plugins: { worker: { program: succeeds } },
    });
    const { run, submit, ended } = await place.start();
    const first = await run('worker', {}, { dedupeKey: 'k' });
    const second = await eventually('the key is free', async () => {
      const id = await submit('worker', {}, { dedupeKey: 'k' });
      return ended(id).catch(() => undefined);
    });
    const doneAt = Date.parse(first.completedAt ?? '');
    expect(Date.parse(second.createdAt)).toBeGreaterThanOrEqual(doneAt + 150);
  });

  test('lets two jobs of one target run one after the other, never at once', async () => {
    const program = python(`
note("begin", payload["n"])
wait_for(str(payload["n"]))
note("end", payload["n"])
ok()`);
    const place = await makePlace({ database, plugins: { worker: { program } } });
    const { submit, ended, ledger } = await place.start();
    const one = await submit('worker', { n: 1 }, { dedupeKey: 'k' });
    const two = await submit('worker', { n: 2 }, { dedupeKey: 'k' });
    const other = await submit('worker', { n: 3 }, { dedupeKey: 'other' });
    await eventually('both keys run', async () => (await place.notes()).length === 2);
    expect((await ledger.jobs.find(two))?.status).toBe('queued');
    await place.openGate('3');
    await ended(other);
    expect((await ledger.jobs.find(two))?.status).toBe('queued');
    await place.openGate('1');
    await place.openGate('2');
    await ended(one);
    expect((await ended(two)).status).toBe('succeeded');
    const notes = (await place.notes()).filter((line) => !line.endsWith('3'));
    expect(notes).toEqual(['begin 1', 'end 1', 'begin 2', 'end 2']);
  });
});
