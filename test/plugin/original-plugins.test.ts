/** Plugins of the original project find in a request what its runtime gives them. */
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { ask } from '../support/direct.ts';
import { databases, eventually, makePlace, type TestPlace } from '../support/instance.ts';
import { python } from '../support/plugin-program.ts';
import { finish, startRun } from '../support/runs.ts';

/** Notes the event that it gets, and passes payload and dedupe key on, as a classifier does. */
const classifies = python(`
event = request["event"]
note(json.dumps({"step": request.get("step_id"), "event": event, "payload": request["payload"]}))
passed = {"type": "classified", "payload": event["payload"]}
if event.get("dedupe_key"): passed["dedupe_key"] = event["dedupe_key"]
ok("matched contains -> classified", events=[passed])`);

/** Notes the event that it gets, and emits nothing. */
const notes = python(`
note(json.dumps({"step": request.get("step_id"), "event": request["event"], "payload": request["payload"]}))
ok("noted")`);

interface Note {
  readonly step: string;
  readonly event: JsonObject & { readonly payload: JsonObject };
  readonly payload: JsonObject;
}

async function readNotes(place: TestPlace): Promise<Note[]> {
  return (await place.notes()).map((line) => JSON.parse(line) as Note);
}

describe.each(databases)('an event on %s', (database) => {
  test("gets the attempt's result, unless it has one", async () => {
    const source = python(`
ok("fetched 2 pages", events=[{"type": "made", "payload": {"n": 1}},
  {"type": "made", "payload": {"n": 2, "result": None}}, {"type": "made", "payload": [3]}])`);
    const place = await makePlace({
      database,
      plugins: { source: { program: source }, worker: { program: notes } },
      routes: [{ event_type: 'made', to: 'worker' }],
    });
    const instance = await place.start();
    await instance.run('source');
    const all = await eventually('all are handled', async () => {
      const found = await readNotes(place);
      return found.length === 3 && found;
    });
    const expected = [{ n: 1, result: 'fetched 2 pages' }, { n: 2, result: null }, [3]];
    expect(all.map(({ payload }) => payload)).toEqual(expect.arrayContaining(expected));
    const signals = await instance.ledger.signals.list({ type: 'made', limit: 9 });
    const data = signals.map((signal) => JSON.parse(signal.data) as unknown);
    expect(data).toEqual(expect.arrayContaining(expected));
  });
});

describe.each(databases)('a step on %s', (database) => {
  test('gets the event that caused it, with its own payload', async () => {
    const source = python('ok(events=[{"type": "made", "payload": {"n": 1}, "dedupe_key": "d"}])');
    const place = await makePlace({
      database,
      plugins: {
        source: { program: source },
        classifier: { program: classifies },
        worker: { program: notes },
      },
      pipelines: [
        {
          name: 'line',
          on: 'made',
          steps: [
            { id: 'first', uses: 'classifier', with: { added: 'by with' } },
            { id: 'second', uses: 'worker' },
            { id: 'third', uses: 'worker' },
          ],
        },
      ],
    });
    const instance = await place.start();
    await instance.run('source');
    const [first, second, third] = await eventually('all steps ran', async () => {
      const found = await readNotes(place);
      return found.length === 3 && found;
    });
    const [made] = await instance.ledger.signals.list({ type: 'made', limit: 9 });
    const [classified] = await instance.ledger.signals.list({ type: 'classified', limit: 9 });
    expect(first).toMatchObject({
      step: 'first',
      event: {
        type: 'made',
        source: 'source',
        event_id: made?.id,
        dedupe_key: 'd',
        timestamp: made?.occurredAt,
        payload: { n: 1, added: 'by with' },
      },
    });
    expect(second).toMatchObject({
      step: 'second',
      event: {
        type: 'classified',
        source: 'classifier',
        event_id: classified?.id,
        dedupe_key: 'd',
        payload: { n: 1, added: 'by with' },
      },
    });
    // The step before it emitted no event.
    expect(third?.event).toEqual({ type: 'pipeline.step', payload: third?.payload });
  });

  test('in a block gets its own event of several, and the event that started the run', async () => {
    const source = python(`
ok(events=[{"type": "part", "payload": {"n": n}, "dedupe_key": f"d{n}"} for n in range(3)])`);
    const place = await makePlace({
      database,
      plugins: { source: { program: source }, worker: { program: notes } },
      pipelines: [
        {
          name: 'many',
          on: 'work.begun',
          steps: [
            {
              id: 'both',
              split: [
                { id: 'left', uses: 'worker' },
                { id: 'right', uses: 'worker' },
              ],
            },
            { id: 'make', uses: 'source.poll' },
            { id: 'each', uses: 'worker' },
          ],
        },
      ],
    });
    const { ledger, engine } = await place.start();
    const signal = { type: 'work.begun', source: 'test', data: { a: 1 }, dedupeKey: 'b' };
    const { signalId } = await engine.signals.emit({ ...signal, actor: 'test' });
    const all = await eventually('all steps ran', async () => {
      const found = await readNotes(place);
      return found.length === 5 && found;
    });
    for (const step of ['left', 'right']) {
      const event = { type: 'work.begun', source: 'test', event_id: signalId, dedupe_key: 'b' };
      expect(all.find((note) => note.step === step)).toMatchObject({ event });
    }
    const parts = await ledger.signals.list({ type: 'part', limit: 9 });
    const each = all.filter(({ step }) => step === 'each').map(({ event }) => event);
    const received = each.map((event) => [
      event['event_id'],
      event['dedupe_key'],
      event.payload['n'],
    ]);
    const expected = parts.map(({ id, data }) => {
      const { n } = JSON.parse(data) as { n: number };
      return [id, `d${n}`, n];
    });
    expect(received).toHaveLength(3);
    expect(received).toEqual(expect.arrayContaining(expected));
  });

  test('that runs again after a revival gets the same event', async () => {
    const program = python(`
note(json.dumps({"step": request["step_id"], "event": request["event"], "payload": {}}))
ok() if os.path.exists("../../gate-good") else fail("not yet", retry=False)`);
    const place = await makePlace({
      database,
      plugins: { classifier: { program: classifies }, worker: { program } },
      pipelines: [
        { name: 'line', steps: [{ uses: 'classifier' }, { id: 'second', uses: 'worker' }] },
      ],
    });
    const instance = await place.start();
    const halted = await finish(instance, 'line', { n: 1 });
    expect(halted.status).toBe('halted');
    await place.openGate('good');
    const revived = await ask(instance.engine, 'run.revive', { run_id: halted.id });
    await instance.engine.waitForRun(revived.result?.['run_id'] as string, 60_000);
    const seconds = (await readNotes(place)).filter(({ step }) => step === 'second');
    expect(seconds).toHaveLength(2);
    expect(seconds[0]?.event).toMatchObject({ type: 'classified', source: 'classifier' });
    expect(seconds[1]?.event).toEqual(seconds[0]?.event);
  });
});

describe.each(databases)('baggage on %s', (database) => {
  test("is in the payload of handle's event, where the payload has no such member", async () => {
    const place = await makePlace({
      database,
      plugins: { worker: { program: notes }, late: { program: notes } },
      pipelines: [
        {
          name: 'carries',
          steps: [
            {
              id: 'first',
              uses: 'worker',
              baggage: { user: 'payload.user', kept: 'payload.n' },
              with: { user: 'changed' },
            },
            {
              id: 'all',
              foreach: 'payload.items',
              as: 'item',
              steps: [{ id: 'inner', uses: 'late' }],
            },
          ],
        },
      ],
    });
    const instance = await place.start();
    const id = await startRun(instance, 'carries', { user: 'ann', n: 7, items: [1] });
    expect((await instance.engine.waitForRun(id, 60_000)).status).toBe('succeeded');
    const [first, inner] = await readNotes(place);
    expect(first?.payload).toEqual({ user: 'changed', n: 7, items: [1] });
    expect(first?.event.payload).toEqual({ user: 'changed', n: 7, items: [1], kept: 7 });
    expect(inner?.payload).toMatchObject({ user: 'ann', n: 7, item: 1, index: 0 });
    expect(inner?.payload).not.toHaveProperty('kept');
    expect(inner?.event.payload).toEqual({ ...inner?.payload, kept: 7 });
  });

  test('reaches jobs that routes start, without what Ductile keeps in it', async () => {
    const source = python('ok(events=[{"type": "made", "payload": {"n": 1, "user": "own"}}])');
    const place = await makePlace({
      database,
      plugins: { source: { program: source }, worker: { program: notes } },
      routes: [{ event_type: 'made', to: 'worker' }],
    });
    const instance = await place.start();
    const ductile = { webhook: { id: 'w' } };
    const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
    const context = { user: 'ann', team: 'blue', ductile, traceparent };
    await instance.run('source', {}, { context });
    const [note] = await eventually('it was handled', async () => {
      const found = await readNotes(place);
      return found.length === 1 && found;
    });
    expect(note?.payload).toEqual({ n: 1, user: 'own', result: 'done' });
    expect(note?.event.payload).toEqual({ n: 1, user: 'own', result: 'done', team: 'blue' });
  });
});
