import { describe, expect, test } from 'vitest';
import { pruneKind } from '../../src/job/prune.service.ts';
import { prunableKinds } from '../../src/job/types.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { databases, eventually, makePlace } from '../support/instance.ts';
import { python, succeeds, waitsForGate } from '../support/plugin-program.ts';

const emits = python('ok(events=[{"type": "made", "payload": {}}], state_updates=payload)');
const factOutputs = 'fact_outputs: [{when: {command: poll}, fact_type: seen}]';

/**
 * The interval is so long that the engine's own pruner, which starts with it, finds no expired key.
 */
const KEYS_MS = 3_600_000;

async function pruneAll(ledger: Ledger, olderThanMs: number): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const what of prunableKinds) {
    const ageMs = what === 'dedupe' ? olderThanMs - KEYS_MS : olderThanMs;
    counts[what] = await pruneKind(ledger, what, ageMs);
  }
  return counts;
}

describe.each(databases)('pruning on %s', (database) => {
  test('takes what is old and leaves what is young', async () => {
    const place = await makePlace({
      database,
      service: { dedupe_ttl: `${KEYS_MS}ms` },
      plugins: { worker: { program: emits, manifest: factOutputs }, sink: { program: succeeds } },
      routes: [{ event_type: 'made', to: 'sink' }],
    });
    const { run, ended, ledger } = await place.start();
    for (const n of [1, 2]) {
      const job = await run('worker', { n }, { dedupeKey: `k${n}`, context: { n } });
      const [child] = await ledger.jobs.list({ parentJobId: job.id, limit: 9 });
      await ended(child?.id ?? '');
    }
    const none = { jobs: 0, attempts: 0, signals: 0, facts: 0, contexts: 0, dedupe: 0 };
    expect(await pruneAll(ledger, 3_600_000)).toMatchObject(none);
    await eventually('the keys are past their time', async () => {
      return (await ledger.now()) > ((await ledger.jobs.list({ limit: 1 }))[0]?.completedAt ?? '');
    });
    // The latest fact stays: it is the plugin's state.
    expect(await pruneAll(ledger, 0)).toMatchObject({
      jobs: 4,
      attempts: 4,
      signals: 2,
      facts: 1,
      contexts: 2,
      dedupe: 2,
    });
    expect(await ledger.jobs.list({ limit: 9 })).toEqual([]);
    expect(JSON.parse(await ledger.plugins.readState('worker'))).toEqual({ n: 2 });
    expect(await ledger.plugins.listFacts('worker', 9)).toHaveLength(1);
  });

  test('leaves alone what belongs to a job that is not done', async () => {
    const place = await makePlace({
      database,
      plugins: { worker: { program: emits }, sink: { program: waitsForGate } },
      routes: [{ event_type: 'made', to: 'sink' }],
    });
    const { run, ledger, ended } = await place.start();
    const root = await run('worker', { n: 1 }, { context: { n: 1 } });
    await eventually('the second runs', async () => (await place.notes()).length === 1);
    expect(await pruneAll(ledger, 0)).toMatchObject({
      jobs: 1,
      attempts: 1,
      signals: 0,
      contexts: 0,
    });
    expect(await ledger.jobs.find(root.id)).toBeUndefined();
    const [open] = await ledger.jobs.list({ limit: 9 });
    expect(open).toMatchObject({ plugin: 'sink', status: 'running', parentJobId: root.id });
    await place.openGate('1');
    expect((await ended(open?.id ?? '')).status).toBe('succeeded');
    expect(await pruneAll(ledger, 0)).toMatchObject({
      jobs: 1,
      attempts: 1,
      signals: 1,
      contexts: 1,
    });
  });
});

test('a process prunes by its configuration when it starts', async () => {
  const place = await makePlace({ plugins: { worker: { program: succeeds } } });
  const before = await place.start();
  const { id } = await before.run('worker');
  await before.close();
  const short = { job_queue_retention: '1ms', dedupe_ttl: '1ms', job_log_retention: '30d' };
  const after = await (await place.vary({ service: short })).start();
  await eventually('the job is gone', async () => (await after.ledger.jobs.find(id)) === undefined);
  expect(await after.attempts(id)).toHaveLength(1);
});

test('a process prunes with every tick, and not only when it starts', async () => {
  const short = { job_queue_retention: '1ms', dedupe_ttl: '1ms', tick_interval: '100ms' };
  const place = await makePlace({ plugins: { worker: { program: succeeds } }, service: short });
  const { run, ledger } = await place.start();
  for (const round of [1, 2]) {
    const { id } = await run('worker', { round });
    await eventually('the job is pruned', async () => (await ledger.jobs.find(id)) === undefined);
  }
});
