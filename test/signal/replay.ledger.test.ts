import { describe, expect, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import type { ReplayStep } from '../../src/signal/replay.sql.ts';
import { databases, openBench } from '../support/ledger/bench.ts';
import { draft, pausing } from '../support/ledger/drafts.ts';

const nothing = { signals: 0, jobs: 0, runs: 0, skipped: 0, unhandled: 0, unopened: 0 };

describe.each(databases)('a step of a replay on %s', (kind) => {
  async function open() {
    const { ledger } = await openBench(kind);
    const request = pausing({ type: 'signal.replay', target: 'signal:*' }, 'process');
    const { directive } = await ledger.directives.create(request);
    const id = makeId();
    const signal = { id, type: 'a.b', source: 'shop', data: '{}', hops: 1, correlationId: id };
    await ledger.signals.emit([{ signal, jobs: [], runs: [] }]);
    const [recorded] = await ledger.signals.list({ id, limit: 1 });
    const seq = recorded?.seq ?? 0;
    const step = (given: Partial<ReplayStep> = {}): ReplayStep => ({
      directiveId: directive.id,
      processId: directive.processId,
      force: false,
      before: { cursor: 0, upTo: seq, ...nothing },
      cursor: seq,
      signals: 1,
      unhandled: 0,
      unopened: 0,
      jobs: [draft({ sourceEventId: id, submittedBy: 'replay' })],
      runs: [],
      ...given,
    });
    const jobs = () => ledger.jobs.list({ sourceEventId: id, limit: 9 });
    return { ledger, directive, step, jobs, seq };
  }

  test('is stored with its mark, and the same step when it is repeated', async () => {
    const { ledger, directive, step, jobs, seq } = await open();
    const first = await ledger.signals.replay(step());
    const progress = { ...nothing, cursor: seq, upTo: seq, signals: 1, jobs: 1 };
    expect(first).toMatchObject({ progress, events: { queued: true } });
    const { progress: kept } = (await ledger.directives.find(directive.id)) ?? {};
    expect(JSON.parse(kept ?? '')).toEqual(progress);
    expect((await ledger.signals.replay(step()))?.progress).toEqual(progress);
    expect(await jobs()).toHaveLength(1);
  });

  test("does nothing if the process doesn't hold the directive", async () => {
    const { ledger, step, jobs } = await open();
    expect(await ledger.signals.replay(step({ processId: 'p2' }))).toBeUndefined();
    expect(await jobs()).toEqual([]);
  });

  test('skips running work for the same signal, unless it is forced', async () => {
    const { ledger, step, jobs, seq } = await open();
    await ledger.signals.replay(step());
    const next = step({ cursor: seq + 1 });
    expect((await ledger.signals.replay(next))?.progress).toMatchObject({ jobs: 0, skipped: 1 });
    const forced = step({ cursor: seq + 2, force: true });
    expect((await ledger.signals.replay(forced))?.progress).toMatchObject({ jobs: 1, skipped: 0 });
    expect(await jobs()).toHaveLength(2);
  });

  test('that was released keeps its position, and charges no attempt', async () => {
    const { ledger, directive, step } = await open();
    await ledger.signals.replay(step());
    await ledger.directives.release(directive);
    const stored = await ledger.directives.find(directive.id);
    expect(stored).toMatchObject({ status: 'requested', attempt: 0, startedAt: null });
    expect(stored?.progress).not.toBeNull();
    expect(await ledger.signals.replay(step({ cursor: 99 }))).toBeUndefined();
    expect(await ledger.directives.listDue(['signal.replay'], 9)).toHaveLength(1);
  });
});
