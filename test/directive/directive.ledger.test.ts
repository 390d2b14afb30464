import { cancelOneJob } from '../../src/job/bulk.sql.ts';
import { switchPause } from '../../src/job/plugin-state.sql.ts';
import { revokeToken } from '../../src/access/token.sql.ts';
import { describe, expect, test } from 'vitest';
import { toTimestamp } from '../../src/base/clock.ts';
import { makeId } from '../../src/base/ids.ts';
import type { DirectiveClosing } from '../../src/ledger/directive-work.ts';
import { databases, openBench } from '../support/ledger/bench.ts';
import { beat, pausing } from '../support/ledger/drafts.ts';

const resuming = () => pausing({ type: 'system.resume' }, (tx) => switchPause(tx, false));

describe.each(databases)('a directive on %s', (kind) => {
  test('that is pure SQL is done, ended and reported in one commit', async () => {
    const { ledger } = await openBench(kind);
    const request = pausing();
    const { directive, verdict } = await ledger.directives.create(request);
    expect(verdict).toBe('recorded');
    expect(directive).toMatchObject({
      id: request.draft.id,
      status: 'completed',
      result: '{"paused":true}',
      error: null,
      processId: 'p1',
    });
    expect(directive.completedAt).not.toBeNull();
    expect(await ledger.meta.read('paused')).toBe('1');
    expect(await ledger.signals.list({ id: request.draft.signalId, limit: 1 })).toMatchObject([
      { type: 'directive.completed', correlationId: request.draft.id },
    ]);
    expect(await ledger.directives.find(request.draft.id)).toEqual(directive);
  });

  test('that fails is on record with its reason, and its change is not', async () => {
    const { ledger } = await openBench(kind);
    const request = pausing({ type: 'job.cancel', target: 'job:nobody' }, (tx) =>
      cancelOneJob(tx, 'nobody'),
    );
    const { directive } = await ledger.directives.create(request);
    expect(directive).toMatchObject({
      status: 'failed',
      errorCode: 'JOB_NOT_FOUND',
      error: 'there is no job nobody',
      result: null,
    });
    expect(await ledger.signals.list({ limit: 9 })).toMatchObject([{ type: 'directive.failed' }]);
  });

  test('that is repeated after a lost response is itself, not a repetition', async () => {
    const { ledger, dump } = await openBench(kind);
    const request = pausing();
    await ledger.directives.create(request);
    const before = await dump();
    expect(await ledger.directives.create(request)).toMatchObject({ verdict: 'recorded' });
    expect(await dump()).toEqual(before);
  });

  test('with the key of another one answers what became of that, or refuses', async () => {
    const { ledger, dump } = await openBench(kind);
    const first = pausing({ sameness: { key: 'mine' } });
    await ledger.directives.create(first);
    const before = await dump();
    const again = await ledger.directives.create(pausing({ sameness: { key: 'mine' } }));
    expect(again).toMatchObject({ verdict: 'repeated', directive: { id: first.draft.id } });
    const others = [
      pausing({ sameness: { key: 'mine' }, params: '{"other":1}' }),
      pausing({ sameness: { key: 'mine' }, type: 'system.resume' }),
    ];
    for (const other of others) {
      expect(await ledger.directives.create(other)).toMatchObject({ verdict: 'mismatch' });
    }
    expect(await dump()).toEqual(before);
  });

  test('in a pair of toggles is new whenever the other one came between', async () => {
    const { ledger } = await openBench(kind);
    const verdicts: string[] = [];
    for (const ask of [pausing, pausing, resuming, resuming, pausing, resuming]) {
      verdicts.push((await ledger.directives.create(ask())).verdict);
    }
    const [one, two] = ['recorded', 'repeated'];
    expect(verdicts).toEqual([one, two, one, two, one, one]);
    expect(await ledger.meta.read('paused')).toBe('0');
  });

  test('that failed is not the result of a later request', async () => {
    const { ledger } = await openBench(kind);
    const ask = () =>
      pausing({ type: 'token.revoke', target: 'token:t' }, (tx) => revokeToken(tx, 't'));
    const ids = [await ledger.directives.create(ask()), await ledger.directives.create(ask())].map(
      ({ directive }) => directive.id,
    );
    expect(new Set(ids).size).toBe(2);
  });

  test('is new in a restored ledger, which may not be in the state that it remembers', async () => {
    const { ledger } = await openBench(kind);
    await ledger.directives.create(resuming());
    await ledger.meta.write('epoch', 'another');
    await ledger.meta.write('paused', '1');
    expect(await ledger.directives.create(resuming())).toMatchObject({ verdict: 'recorded' });
    expect(await ledger.meta.read('paused')).toBe('0');
  });

  test('repeated after a lost response is itself, whatever was done since', async () => {
    const { ledger } = await openBench(kind);
    const request = pausing();
    const first = await ledger.directives.create(request);
    await ledger.directives.create(resuming());
    expect(await ledger.directives.create(request)).toEqual(first);
    expect(await ledger.meta.read('paused')).toBe('0');
  });

  test('in a process runs in its name and is ended once, only by that process', async () => {
    const { ledger } = await openBench(kind);
    const request = pausing({ type: 'config.reload', target: 'config:' }, 'process');
    const { directive } = await ledger.directives.create(request);
    expect(directive).toMatchObject({ status: 'running', completedAt: null, result: null });
    expect(await ledger.signals.list({ limit: 9 })).toEqual([]);
    const closing: DirectiveClosing = {
      id: directive.id,
      processId: 'p1',
      end: { status: 'completed', result: { generation: 2 } },
      ...request.ends.completed,
    };
    expect(await ledger.directives.close({ ...closing, processId: 'p2' })).toBe(false);
    expect(await ledger.directives.close(closing)).toBe(true);
    const late = { ...closing, end: { status: 'failed', code: 'INTERNAL', error: 'x' } as const };
    expect(await ledger.directives.close({ ...late, ...request.ends.failed(late.end) })).toBe(
      false,
    );
    expect(await ledger.directives.find(directive.id)).toMatchObject({
      status: 'completed',
      result: '{"generation":2}',
      error: null,
    });
    expect(await ledger.signals.list({ limit: 9 })).toHaveLength(1);
  });

  test('in a process that died is found and failed with it', async () => {
    const { ledger, sql } = await openBench(kind);
    await ledger.processes.heartbeat(beat('p1'));
    await ledger.processes.heartbeat(beat('p2'));
    const request = pausing({ type: 'config.reload', target: 'config:' }, 'process');
    const { directive } = await ledger.directives.create(request);
    expect(await ledger.processes.listOrphans({ self: 'p2', staleMs: 30_000 })).toEqual([]);
    await sql(`update processes set last_heartbeat_at = '2000-01-01T00:00:00.000Z' where id = ?`, [
      'p1',
    ]);
    const [orphan] = await ledger.processes.listOrphans({ self: 'p2', staleMs: 30_000 });
    expect(orphan).toMatchObject({ processId: 'p1', jobs: [], directives: [directive] });
    const end = { status: 'failed', code: 'DIRECTIVE_FAILED', error: 'it died' } as const;
    const closing = { id: directive.id, processId: 'p1', end, ...request.ends.failed(end) };
    await ledger.processes.reap({
      processId: 'p1',
      staleMs: 30_000,
      closings: [],
      directives: [closing],
    });
    expect(await ledger.directives.find(directive.id)).toMatchObject({
      status: 'failed',
      error: 'it died',
    });
    expect(await ledger.signals.list({ limit: 9 })).toMatchObject([{ type: 'directive.failed' }]);
    expect(await ledger.processes.listOrphans({ self: 'p2', staleMs: 30_000 })).toEqual([]);
  });

  test('in a process that the ledger never knew is found as well', async () => {
    const { ledger, sql } = await openBench(kind);
    const request = pausing({ type: 'config.reload', target: 'config:' }, 'process');
    const { directive } = await ledger.directives.create(request);
    const found = [{ processId: 'p1', directives: [{ id: directive.id }] }];
    expect(await ledger.processes.listOrphans({ self: 'p2', staleMs: 30_000 })).toEqual([]);
    expect(await ledger.processes.listOrphans({ self: 'p2', staleMs: 0 })).toMatchObject(found);
    // A command without a server never beats, and may take longer than a heartbeat may be late.
    const startedAt = toTimestamp(Date.now() - 10 * 60_000);
    await sql('update directives set started_at = ?', [startedAt]);
    expect(await ledger.processes.listOrphans({ self: 'p2', staleMs: 30_000 })).toEqual([]);
    await sql(`update directives set started_at = '2000-01-01T00:00:00.000Z'`);
    expect(await ledger.processes.listOrphans({ self: 'p2', staleMs: 30_000 })).toMatchObject(
      found,
    );
    expect(await ledger.processes.listOrphans({ self: 'p1', staleMs: 0 })).toEqual([]);
  });

  test('can be found by what it did, to what, and by whom', async () => {
    const { ledger } = await openBench(kind);
    const [a, b, c] = [
      pausing({ actor: 'ann' }),
      pausing({ type: 'system.resume', actor: 'bob' }, (tx) => switchPause(tx, false)),
      pausing({ target: 'job:x', sameness: 'each' }, (tx) => cancelOneJob(tx, 'x')),
    ];
    for (const asked of [a, b, c]) await ledger.directives.create(asked);
    const find = async (filter: object): Promise<string[]> =>
      (await ledger.directives.list({ limit: 9, ...filter })).map(({ id }) => id);
    expect(await find({})).toEqual([c.draft.id, b.draft.id, a.draft.id]);
    expect(await find({ type: 'system.resume' })).toEqual([b.draft.id]);
    expect(await find({ actor: 'ann' })).toEqual([a.draft.id]);
    expect(await find({ target: 'job:x' })).toEqual([c.draft.id]);
    expect(await find({ status: ['failed'] })).toEqual([c.draft.id]);
    const [, second] = await ledger.directives.list({ limit: 2 });
    expect(await find({ beforeSeq: second?.seq })).toEqual([a.draft.id]);
  });

  test('is pruned by the time of its end, and never while it runs', async () => {
    const { ledger, sql } = await openBench(kind);
    await ledger.directives.create(pausing());
    const running = pausing({ sameness: 'each', id: makeId() }, 'process');
    await ledger.directives.create(running);
    const prune = { what: 'directives', olderThanMs: 60_000, limit: 9 } as const;
    expect(await ledger.history.prune(prune)).toBe(0);
    await sql(`update directives set requested_at = '2000-01-01T00:00:00.000Z',
      completed_at = case when completed_at is not null then '2000-01-01T00:00:00.000Z' end`);
    expect(await ledger.history.prune(prune)).toBe(1);
    expect(await ledger.directives.list({ limit: 9 })).toMatchObject([{ id: running.draft.id }]);
  });
});
