import { describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import type { StateChange } from '../../src/job/types.ts';
import { databases, openBench, range } from '../support/ledger/bench.ts';
import { claimAs, draft, fail, settleOne, startOne, succeed } from '../support/ledger/drafts.ts';

function merge(value: unknown): StateChange {
  return { kind: 'merge', value: JSON.stringify(value) };
}

function snapshot(value: unknown, mirror = true): StateChange {
  return { kind: 'snapshot', factType: 'seen', mirror, value: JSON.stringify(value) };
}

describe.each(databases)('the state of a plugin on %s', (kind) => {
  test('is empty before anything was said', async () => {
    const { ledger } = await openBench(kind);
    expect(await ledger.plugins.readState('echo')).toBe('{}');
    expect(await ledger.plugins.listFacts('echo', 10)).toEqual([]);
  });

  test('updates are merged into it, key by key and not deeper', async () => {
    const { ledger } = await openBench(kind);
    for (const value of [{ a: 1, b: { x: 1 } }, { b: { y: 2 }, c: null }, { a: 3 }]) {
      await settleOne(ledger, succeed(await startOne(ledger, 'p1'), { state: merge(value) }));
    }
    expect(JSON.parse(await ledger.plugins.readState('echo'))).toEqual({
      a: 3,
      b: { y: 2 },
      c: null,
    });
    expect(await ledger.plugins.listFacts('echo', 10)).toEqual([]);
  });

  test('a snapshot is a fact and takes its place', async () => {
    const { ledger } = await openBench(kind);
    await settleOne(ledger, succeed(await startOne(ledger, 'p1'), { state: merge({ old: 1 }) }));
    await settleOne(ledger, succeed(await startOne(ledger, 'p1'), { state: snapshot({ new: 1 }) }));
    expect(JSON.parse(await ledger.plugins.readState('echo'))).toEqual({ new: 1 });
    expect(await ledger.plugins.listFacts('echo', 10)).toMatchObject([{ fact: '{"new":1}' }]);
  });

  test('a snapshot that is not mirrored is a fact only', async () => {
    const { ledger } = await openBench(kind);
    await settleOne(ledger, succeed(await startOne(ledger, 'p1'), { state: merge({ old: 1 }) }));
    const state = snapshot({ new: 1 }, false);
    await settleOne(ledger, succeed(await startOne(ledger, 'p1'), { state }));
    expect(JSON.parse(await ledger.plugins.readState('echo'))).toEqual({ old: 1 });
    expect(await ledger.plugins.listFacts('echo', 10)).toMatchObject([{ fact: '{"new":1}' }]);
  });

  test.each(['[1]', '"text"', '7', 'null'])(
    'that is %s counts as empty for a merge',
    async (odd) => {
      const { ledger } = await openBench(kind);
      const state: StateChange = { kind: 'snapshot', factType: 'seen', mirror: true, value: odd };
      await settleOne(ledger, succeed(await startOne(ledger, 'p1'), { state }));
      await settleOne(ledger, succeed(await startOne(ledger, 'p1'), { state: merge({ a: 1 }) }));
      expect(await ledger.plugins.readState('echo')).toBe('{"a":1}');
    },
  );

  test('changes of one batch follow each other, each seeing the one before', async () => {
    const { ledger } = await openBench(kind);
    await ledger.jobs.enqueue({ jobs: range(4).map(() => draft()) });
    const claimed = await claimAs(ledger, 'p1');
    const changes = [merge({ a: 1 }), merge({ b: 2 }), snapshot({ s: 3 }), merge({ c: 4 })];
    await ledger.jobs.settle(claimed.map((job, index) => succeed(job, changeOf(changes[index]))));
    expect(JSON.parse(await ledger.plugins.readState('echo'))).toEqual({ s: 3, c: 4 });
  });

  test('belongs to the plugin alone', async () => {
    const { ledger } = await openBench(kind);
    for (const plugin of ['a', 'b']) {
      const job = await startOne(ledger, 'p1', { plugin });
      await settleOne(ledger, succeed(job, { state: merge({ of: plugin }) }));
    }
    expect([await ledger.plugins.readState('a'), await ledger.plugins.readState('b')]).toEqual([
      '{"of":"a"}',
      '{"of":"b"}',
    ]);
  });

  test('from an attempt that was fenced or asked to stop is not stored', async () => {
    const { ledger } = await openBench(kind);
    await ledger.jobs.enqueue({ jobs: range(3).map(() => draft()) });
    const [stopped, fenced, fine] = await claimAs(ledger, 'p1');
    if (stopped === undefined || fenced === undefined || fine === undefined) throw new Error();
    await ledger.jobs.cancel(stopped.id);
    const { verdicts } = await ledger.jobs.settle([
      fail(stopped, { state: merge({ stopped: 1 }) }),
      { ...succeed(fenced, { state: merge({ fenced: 1 }) }), claimToken: 'other' },
      succeed(fine, { state: merge({ fine: 1 }) }),
    ]);
    expect([...verdicts.values()].toSorted()).toEqual(['cancelled', 'fenced', 'settled']);
    expect(await ledger.plugins.readState('echo')).toBe('{"fine":1}');
  });
});

describe.each(databases)('a state past its limit on %s', (kind) => {
  const bytes = limits.stateBytesMax;
  /** JSON of exactly so many bytes. */
  const sized = (total: number) => ({ x: 'ä'.repeat((total - 8) / 2) });

  test('is refused and the old one kept, with nothing else written', async () => {
    const { ledger, dump } = await openBench(kind);
    const first = await startOne(ledger, 'p1');
    await settleOne(ledger, succeed(first, { state: merge({ kept: 1 }) }));
    const job = await startOne(ledger, 'p1');
    const before = await dump();
    const changes = [
      snapshot(sized(bytes + 2)),
      snapshot(sized(bytes + 2), false),
      merge(sized(bytes)),
    ];
    for (const state of changes) {
      expect(await settleOne(ledger, succeed(job, { state, jobs: [draft()] }))).toBe('oversize');
      expect(await dump()).toEqual(before);
    }
    expect(await settleOne(ledger, fail(job))).toBe('settled');
    expect(await ledger.plugins.readState('echo')).toBe('{"kept":1}');
  });

  test('at exactly the limit is accepted', async () => {
    const { ledger } = await openBench(kind);
    const job = await startOne(ledger, 'p1');
    expect(Buffer.byteLength(JSON.stringify(sized(bytes)))).toBe(bytes);
    expect(await settleOne(ledger, succeed(job, { state: snapshot(sized(bytes)) }))).toBe(
      'settled',
    );
  });

  test('does not hurt the others of its batch', async () => {
    const { ledger } = await openBench(kind);
    await ledger.jobs.enqueue({ jobs: range(3).map(() => draft()) });
    const claimed = await claimAs(ledger, 'p1');
    const changes = [merge({ a: 1 }), merge(sized(bytes)), merge({ b: 2 })];
    const closings = claimed.map((job, index) => succeed(job, changeOf(changes[index])));
    const { verdicts } = await ledger.jobs.settle(closings);
    expect(claimed.map(({ id }) => verdicts.get(id))).toEqual(['settled', 'oversize', 'settled']);
    expect(await ledger.plugins.readState('echo')).toBe('{"a":1,"b":2}');
  });
});

describe.each(databases)('facts on %s', (kind) => {
  test('have numbers that only grow, over all plugins', async () => {
    const { ledger } = await openBench(kind);
    const plugins = ['a', 'b', 'a', 'c', 'b', 'a'];
    const seqs: number[] = [];
    for (const [index, plugin] of plugins.entries()) {
      const job = await startOne(ledger, 'p1', { plugin });
      await settleOne(ledger, succeed(job, { state: snapshot({ index }) }));
      seqs.push((await ledger.plugins.listFacts(plugin, 1))[0]?.seq ?? 0);
    }
    expect(seqs).toEqual([1, 2, 3, 4, 5, 6]);
    const ofA = await ledger.plugins.listFacts('a', 2);
    expect(ofA.map(({ fact }) => JSON.parse(fact))).toEqual([{ index: 5 }, { index: 2 }]);
  });

  test('in one batch follow its order', async () => {
    const { ledger } = await openBench(kind);
    await ledger.jobs.enqueue({ jobs: range(20).map(() => draft()) });
    const claimed = await claimAs(ledger, 'p1', { slots: 20 });
    await ledger.jobs.settle(
      claimed.map((job, index) => succeed(job, { state: snapshot({ index }) })),
    );
    const facts = await ledger.plugins.listFacts('echo', 100);
    expect(facts.map(({ fact }) => JSON.parse(fact))).toEqual(
      range(20)
        .toReversed()
        .map((index) => ({ index })),
    );
    expect(facts.map(({ seq }) => seq)).toEqual(
      range(20)
        .toReversed()
        .map((index) => index + 1),
    );
  });
});

function changeOf(state: StateChange | undefined): { state?: StateChange } {
  return state === undefined ? {} : { state };
}
