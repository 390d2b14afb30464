import { describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { databases, makePlace } from '../support/instance.ts';
import { python } from '../support/plugin-program.ts';

const updates = python('ok(state_updates=payload)');
const grows = python('ok(state_updates={payload["key"]: "x" * payload["size"]})');

async function stateOf(ledger: Ledger, plugin: string): Promise<unknown> {
  return JSON.parse(await ledger.plugins.readState(plugin));
}

function facts(view: string): string {
  return `fact_outputs:
  - when: {command: poll}
    fact_type: snapshot
    compatibility_view: ${view}`;
}

describe.each(databases)('state on %s', (database) => {
  test('without a declaration is merged key by key', async () => {
    const place = await makePlace({ database, plugins: { worker: { program: updates } } });
    const { run, ledger } = await place.start();
    await run('worker', { a: 1, nested: { x: 1 } });
    await run('worker', { b: null, nested: { y: 2 } });
    expect(await stateOf(ledger, 'worker')).toEqual({ a: 1, b: null, nested: { y: 2 } });
    await run('worker', {});
    expect(await stateOf(ledger, 'worker')).toEqual({ a: 1, b: null, nested: { y: 2 } });
    expect(await ledger.plugins.listFacts('worker', 9)).toEqual([]);
  });

  test('that is declared a snapshot becomes a fact and replaces what was', async () => {
    const manifest = facts('mirror_object');
    const place = await makePlace({
      database,
      plugins: { worker: { program: updates, manifest } },
    });
    const { run, ledger } = await place.start();
    const first = await run('worker', { a: 1 });
    const second = await run('worker', { b: 2 });
    await run('worker', { c: 3 }, { command: 'handle' });
    expect(await stateOf(ledger, 'worker')).toEqual({ b: 2, c: 3 });
    const found = await ledger.plugins.listFacts('worker', 9);
    expect(found.map(({ jobId, fact }) => [jobId, JSON.parse(fact)])).toEqual([
      [second.id, { b: 2 }],
      [first.id, { a: 1 }],
    ]);
    expect(found[0]).toMatchObject({ plugin: 'worker', factType: 'snapshot', command: 'poll' });
    expect(found[0]?.seq).toBeGreaterThan(found[1]?.seq ?? Infinity);
  });

  test('is not touched by a snapshot that asks for no view', async () => {
    const manifest = facts("''");
    const place = await makePlace({
      database,
      plugins: { worker: { program: updates, manifest } },
    });
    const { run, ledger } = await place.start();
    await run('worker', { a: 1 });
    expect(await stateOf(ledger, 'worker')).toEqual({});
    expect(await ledger.plugins.listFacts('worker', 9)).toHaveLength(1);
  });

  test('counts facts of all plugins in one order, however many settle at once', async () => {
    const manifest = facts('mirror_object');
    const place = await makePlace({
      database,
      service: { max_workers: 8 },
      plugins: { one: { program: updates, manifest }, two: { program: updates, manifest } },
    });
    const { run, ledger } = await place.start();
    const runs = Array.from({ length: 10 }, (_none, n) => run(n % 2 === 0 ? 'one' : 'two', { n }));
    await Promise.all(runs);
    const all = [
      ...(await ledger.plugins.listFacts('one', 99)),
      ...(await ledger.plugins.listFacts('two', 99)),
    ];
    const ordered = all.map(({ seq }) => seq).sort((a, b) => a - b);
    expect(ordered).toEqual(Array.from({ length: 10 }, (_none, index) => index + 1));
  });

  test('loses no key when attempts of one plugin settle together', async () => {
    const place = await makePlace({
      database,
      service: { max_workers: 8 },
      plugins: { worker: { program: updates } },
    });
    const { run, ledger } = await place.start();
    const keys = Array.from({ length: 16 }, (_none, index) => `k${index}`);
    await Promise.all(keys.map((key) => run('worker', { [key]: key })));
    expect(await stateOf(ledger, 'worker')).toEqual(Object.fromEntries(keys.map((k) => [k, k])));
  });

  test('beyond 1 MiB fails the job and stays as it was', async () => {
    const place = await makePlace({
      database,
      plugins: { worker: { program: grows } },
      routes: [],
    });
    const { run, ledger, attempts } = await place.start();
    await run('worker', { key: 'a', size: 600_000 });
    const before = await ledger.plugins.readState('worker');
    const job = await run('worker', { key: 'b', size: 600_000 });
    expect(job).toMatchObject({ status: 'failed', reason: 'state_too_large', attempt: 1 });
    const [row] = await attempts(job.id);
    expect(row).toMatchObject({ status: 'failed', cause: 'state_too_large', exitCode: 0 });
    expect(row?.result).toContain('x'.repeat(600_000));
    expect(await ledger.plugins.readState('worker')).toBe(before);
    expect(await ledger.signals.list({ type: 'job.dead', limit: 9 })).toHaveLength(1);
    const smaller = await run('worker', { key: 'b', size: 1000 });
    expect(smaller.status).toBe('succeeded');
  });

  test('beyond 1 MiB as a snapshot fails the job and leaves no fact', async () => {
    const manifest = facts('mirror_object');
    const place = await makePlace({ database, plugins: { worker: { program: grows, manifest } } });
    const { run, ledger } = await place.start();
    const job = await run('worker', { key: 'a', size: limits.stateBytesMax });
    expect(job).toMatchObject({ status: 'failed', reason: 'state_too_large' });
    expect(await ledger.plugins.listFacts('worker', 9)).toEqual([]);
    expect(await stateOf(ledger, 'worker')).toEqual({});
  });
});
