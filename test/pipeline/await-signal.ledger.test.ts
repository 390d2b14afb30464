/** Signals that end a wait, including those from before its start. */
import { describe, expect, test } from 'vitest';
import { DuctileError } from '../../src/base/errors.ts';
import { makeId } from '../../src/base/ids.ts';
import type { JsonObject } from '../../src/base/json.ts';
import { limits } from '../../src/base/limits.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import type { WaitNode } from '../../src/pipeline/language/graph.ts';
import type { SignalDraft } from '../../src/signal/signal.ts';
import { foreach, task, wait } from './graphs.ts';
import { revive } from '../support/ledger/run-directives.ts';
import {
  advanceAll,
  branchesOf,
  carryOn,
  claimSteps,
  define,
  done,
  findRun,
  outputOf,
  start,
} from '../support/ledger/runs.ts';
import { databases, only, openBench, range } from '../support/ledger/bench.ts';

const LONG_AGO = '2020-01-01T00:00:00.000Z';
const isMine = { path: ['signal', 'n'], op: 'eq', value: 7 } as const;

function awaited(more: Partial<NonNullable<WaitNode['signal']>> = {}): WaitNode['signal'] {
  return { type: 'paid', from: undefined, when: undefined, ...more };
}

async function tell(
  ledger: Ledger,
  said: readonly (number | JsonObject)[],
  more: Partial<SignalDraft> = {},
): Promise<string[]> {
  const signals = said.map((data) => ({
    id: makeId(),
    type: 'paid',
    source: 'shop',
    data: JSON.stringify(typeof data === 'number' ? { n: data } : data),
    hops: 0,
    correlationId: 'c',
    ...more,
  }));
  await ledger.runs.start({ jobs: [], signals });
  return signals.map(({ id }) => id);
}

describe.each(databases)('a wait for a signal on %s', (kind) => {
  test('continues with a signal that arrived while the previous step ran', async () => {
    const { ledger } = await openBench(kind);
    const signal = awaited({ when: isMine });
    const graph = await define(ledger, [task('ask', { next: 'w' }), wait('w', { signal })]);
    const run = await start(ledger, graph);
    const ask = only(await claimSteps(ledger, graph));
    await tell(ledger, [6, 7, 7]);
    const { runEvents } = await ledger.jobs.settle([done(ask)]);
    expect(runEvents.dueInMs).toBe(0);
    // A signal that comes before the first read hides none of the earlier ones.
    await tell(ledger, [8]);
    await advanceAll(ledger);
    expect(await outputOf(ledger, run.id)).toEqual({ result: null, w: { n: 7 } });
  });

  test('ignores signals from before its run was accepted, and the one that started it', async () => {
    const { ledger, sql } = await openBench(kind);
    await tell(ledger, [1]);
    await sql('update signals set inserted_at = ?', [LONG_AGO]);
    const [sourceEventId = ''] = await tell(ledger, [2]);
    const graph = await define(ledger, [wait('w', { signal: awaited() })]);
    const run = await start(ledger, graph, {}, { sourceEventId });
    await advanceAll(ledger);
    expect(only(await branchesOf(ledger, run.id))).toMatchObject({ status: 'waiting' });
    await tell(ledger, [3]);
    await advanceAll(ledger);
    expect(await outputOf(ledger, run.id)).toEqual({ w: { n: 3 } });
  });

  test('accepts each signal once per branch, in the order of arrival', async () => {
    const { ledger } = await openBench(kind);
    const signal = awaited();
    const nodes = [
      task('a', { next: 'first' }),
      wait('first', { signal, next: 'each' }),
      foreach('each', 'second', { next: 'third' }),
      wait('second', { signal }),
      wait('third', { signal }),
    ];
    const graph = await define(ledger, nodes);
    const run = await start(ledger, graph, { items: [0] });
    const a = only(await claimSteps(ledger, graph));
    await tell(ledger, [1, 2]);
    await ledger.jobs.settle([done(a, 'did')]);
    await advanceAll(ledger);
    // The branch of the block used the second signal. Its parent can use it, too.
    expect(await outputOf(ledger, run.id)).toMatchObject({
      first: { n: 1 },
      each: [{ second: { n: 2 } }],
      third: { n: 2 },
    });
  });

  test('waits for a new one if configured', async () => {
    const { ledger } = await openBench(kind);
    const signal = awaited({ since: 'now' });
    const graph = await define(ledger, [task('a', { next: 'w' }), wait('w', { signal })]);
    const run = await start(ledger, graph);
    const a = only(await claimSteps(ledger, graph));
    await tell(ledger, [1]);
    await ledger.jobs.settle([done(a)]);
    expect(await advanceAll(ledger)).toEqual([]);
    await tell(ledger, [2]);
    await advanceAll(ledger);
    expect(await outputOf(ledger, run.id)).toMatchObject({ w: { n: 2 } });
  });

  test('that timed out continues with a later signal, when it is revived', async () => {
    const { ledger, sql } = await openBench(kind);
    const graph = await define(ledger, [wait('w', { signal: awaited(), timeoutMs: 60_000 })]);
    const run = await start(ledger, graph);
    await sql('update run_branches set due_at = ?, deadline_at = ?', [LONG_AGO, LONG_AGO]);
    await advanceAll(ledger);
    expect(await findRun(ledger, run.id)).toMatchObject({ haltReason: 'timeout' });
    await tell(ledger, [1]);
    const revived = await revive(ledger, run.id);
    await carryOn(ledger, graph);
    expect(await outputOf(ledger, revived)).toEqual({ w: { n: 1 } });
  });

  test('gets the whole payload of a signal, including masked fields', async () => {
    const { ledger } = await openBench(kind);
    const sealed = { keyId: 'k1', text: 'v1.a.b' };
    const opened: unknown[] = [];
    ledger.provideRules({
      openSignal: (id, what) => {
        opened.push([id, what]);
        return '{"n":7,"token":"t"}';
      },
    });
    const when = { path: ['signal', 'token'], op: 'eq', value: 't' } as const;
    const graph = await define(ledger, [wait('w', { signal: awaited({ when }) })]);
    const run = await start(ledger, graph);
    const [masked] = await tell(ledger, [{ n: 7, token: '[redacted]' }], {
      metadata: '{"redacted":["data.token"]}',
      sealed,
    });
    await advanceAll(ledger);
    expect(opened).toEqual([[masked, sealed]]);
    expect(await outputOf(ledger, run.id)).toEqual({ w: { n: 7, token: 't' } });
  });

  test("does not get the masked payload if the sealed one can't be opened", async () => {
    const { ledger } = await openBench(kind);
    ledger.provideRules({
      openSignal: () => {
        throw new DuctileError('CREDENTIAL_KEY_MISSING', 'the key k1 is missing here');
      },
    });
    const hidden = {
      metadata: '{"redacted":["data.token"]}',
      sealed: { keyId: 'k1', text: 'v1.a.b' },
    };
    const graph = await define(ledger, [wait('w', { signal: awaited({ when: isMine }) })]);
    const run = await start(ledger, graph);
    await tell(ledger, [{ n: 6, token: '[redacted]' }], hidden);
    await advanceAll(ledger);
    expect(only(await branchesOf(ledger, run.id)).status).toBe('waiting');
    await tell(ledger, [{ n: 7, token: '[redacted]' }], hidden);
    await expect(advanceAll(ledger)).rejects.toThrow('the key k1 is missing here');
  });

  test('keeps its deadline while it searches many signals in batches', async () => {
    const { ledger, sql } = await openBench(kind);
    const signal = awaited({ when: isMine });
    const graph = await define(ledger, [
      task('a', { next: 'w' }),
      wait('w', { signal, timeoutMs: 60_000 }),
    ]);
    const run = await start(ledger, graph);
    const a = only(await claimSteps(ledger, graph));
    const many = limits.signalSearchMax;
    await tell(ledger, [...range(2 * many), 0].fill(0));
    await ledger.jobs.settle([done(a)]);
    const deadline = async () => (await sql('select deadline_at from run_branches'))[0];
    const before = await deadline();
    expect(before).not.toEqual({ deadline_at: null });
    expect(await advanceAll(ledger)).toHaveLength(3);
    expect(only(await branchesOf(ledger, run.id))).toMatchObject({ status: 'waiting' });
    expect(await deadline()).toEqual(before);
    await tell(ledger, [7]);
    await advanceAll(ledger);
    expect(await outputOf(ledger, run.id)).toMatchObject({ w: { n: 7 } });
  });
});

test('the wait searches a second time for signals that were being committed', async () => {
  const { ledger, sql } = await openBench('postgres');
  const graph = await define(ledger, [wait('w', { signal: awaited() })]);
  const run = await start(ledger, graph);
  await advanceAll(ledger);
  // Simulates an insert by a transaction that can't see the branch wait.
  await sql("update run_branches set waits_for = 'unseen'");
  await tell(ledger, [1]);
  await sql("update run_branches set waits_for = 'paid'");
  expect(await advanceAll(ledger)).toEqual([]);
  await sql('update run_branches set due_at = ? where due_at is not null', [LONG_AGO]);
  await advanceAll(ledger);
  expect(await outputOf(ledger, run.id)).toEqual({ w: { n: 1 } });
});
