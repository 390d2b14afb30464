import { noRules } from '../../src/ledger/rules.ts';
import { describe, expect, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { databases, makePlace, only, openBench, range } from '../support/ledger/bench.ts';
import {
  claimAs,
  draft,
  settleOne,
  signalOf,
  startOne,
  succeed,
} from '../support/ledger/drafts.ts';

describe.each(databases)('enqueue on %s', (kind) => {
  test('an acknowledged job is there after the ledger was opened again', async () => {
    const place = await makePlace(kind);
    const before = await openLedger(place, noRules);
    const jobDraft = draft({ payload: '{"kept":true}' });
    await before.jobs.enqueue({ jobs: [jobDraft] });
    await before.close();
    const after = await openLedger(place, noRules);
    try {
      expect(await after.jobs.find(jobDraft.id)).toMatchObject({
        status: 'queued',
        payload: '{"kept":true}',
      });
    } finally {
      await after.close();
    }
  });

  test('jobs of one batch have the same time, by the clock of the database', async () => {
    const { ledger, sql } = await openBench(kind);
    const before = await ledger.now();
    await ledger.jobs.enqueue({ jobs: range(50).map(() => draft()) });
    const after = await ledger.now();
    const [times = {}] = await sql(
      `select min(created_at) as first, max(created_at) as last, min(ready_at) as ready from job_queue`,
    );
    expect(times['first']).toBe(times['last']);
    expect(times['ready']).toBe(times['first']);
    expect(before <= String(times['first']) && String(times['last']) <= after).toBe(true);
  });

  test('a job that is submitted twice in a batch is stored once', async () => {
    const { ledger } = await openBench(kind);
    const [one, other] = [draft(), draft()];
    const answers = await ledger.jobs.enqueue({ jobs: [one, other, one] });
    expect(answers.map(({ jobId }) => jobId)).toEqual([one.id, other.id, one.id]);
    expect(await ledger.jobs.list({ limit: 9 })).toHaveLength(2);
  });

  test('every field comes back as it was given', async () => {
    const { ledger, job } = await openBench(kind);
    const jobDraft = draft({
      submittedBy: 'webhook',
      actor: 'webhook:github',
      maxAttempts: 7,
      dedupe: { key: 'k', ttlMs: 1234, blockInFlight: true },
      parentJobId: 'parent',
      sourceEventId: 'event',
      rootJobId: 'root',
      retryOf: 'earlier',
      idempotencyKey: 'idem',
      hops: 3,
      runtimeCaused: true,
      eventContextId: 'context',
    });
    expect(await ledger.jobs.enqueue({ jobs: [jobDraft] })).toEqual([{ jobId: jobDraft.id }]);
    const { dedupe, ...fields } = jobDraft;
    expect(await job(jobDraft.id)).toMatchObject({
      ...fields,
      dedupeKey: dedupe?.key,
      dedupeTtlMs: dedupe?.ttlMs,
      status: 'queued',
      attempt: 1,
      retryCount: 0,
      crashCount: 0,
      interruptCount: 0,
      suspect: false,
      startedAt: null,
      completedAt: null,
      nextRetryAt: null,
      claimToken: null,
      claimedBy: null,
      cancelRequestedAt: null,
    });
  });

  test('a job without a lineage is its own root and its own idempotency key', async () => {
    const { ledger, job } = await openBench(kind);
    const jobDraft = draft();
    await ledger.jobs.enqueue({ jobs: [jobDraft] });
    expect(await job(jobDraft.id)).toMatchObject({
      rootJobId: jobDraft.id,
      idempotencyKey: jobDraft.id,
      hops: 0,
      runtimeCaused: false,
      parentJobId: null,
    });
  });

  test('the same id twice is one job, and the first one is kept', async () => {
    const { ledger, job } = await openBench(kind);
    const jobDraft = draft({ payload: '1' });
    await ledger.jobs.enqueue({ jobs: [jobDraft] });
    expect(await ledger.jobs.enqueue({ jobs: [{ ...jobDraft, payload: '2' }] })).toEqual([
      { jobId: jobDraft.id },
    ]);
    expect(await ledger.jobs.enqueue({ jobs: [jobDraft, jobDraft] })).toHaveLength(2);
    expect(await ledger.jobs.list({ limit: 10 })).toHaveLength(1);
    expect((await job(jobDraft.id)).payload).toBe('1');
  });

  test('a job asked for again after it ended stays ended', async () => {
    const { ledger, job } = await openBench(kind);
    const started = await startOne(ledger, 'p1');
    await settleOne(ledger, succeed(started));
    await ledger.jobs.enqueue({ jobs: [draft({ id: started.id })] });
    expect((await job(started.id)).status).toBe('succeeded');
    expect(await claimAs(ledger, 'p1')).toEqual([]);
  });

  test('a batch of 500 arrives in its order', async () => {
    const { ledger } = await openBench(kind);
    const jobs = range(500).map(() => draft());
    await ledger.jobs.enqueue({ jobs });
    const found = await ledger.jobs.list({ limit: 1000, order: 'oldest' });
    expect(found.map(({ id }) => id)).toEqual(jobs.map(({ id }) => id));
    const seqs = found.map(({ seq }) => seq);
    expect(seqs).toEqual(seqs.toSorted((a, b) => a - b));
  });

  test.each([
    ['a megabyte', JSON.stringify({ text: 'x'.repeat(1024 * 1024) })],
    ['many languages', '{"text":"naïve – 日本語 – Ελληνικά – 👩‍👩‍👧‍👦 – \u202e"}'],
    ['what SQL and arrays quote', '{"text":"\'\\"\\\\ {NULL},? $1 --; \\u0007"}'],
    ['the word for nothing', 'NULL'],
    ['control characters', '"\u0001\u001f\u007f\r\n\t"'],
    ['no character at all', ''],
  ])('a payload with %s comes back unchanged', async (_, payload) => {
    const { ledger, job } = await openBench(kind);
    const jobs = [draft({ payload }), draft({ payload, actor: payload.slice(0, 100) })];
    await ledger.jobs.enqueue({ jobs });
    const claimed = await claimAs(ledger, 'p1');
    expect(claimed.map((one) => one.payload === payload)).toEqual([true, true]);
    expect((await job(jobs[1]?.id ?? '')).actor).toBe(payload.slice(0, 100));
  });

  test('signals and contexts come with the jobs that they cause', async () => {
    const { ledger } = await openBench(kind);
    const [signalId, contextId] = [makeId(), makeId()];
    const jobDraft = draft({ sourceEventId: signalId, eventContextId: contextId });
    const signals = [
      { id: signalId, type: 'a.b', source: 'api', data: '{"a":1}', hops: 1, correlationId: 'c' },
    ];
    const contexts = [{ id: contextId, accumulated: '{"bag":1}' }];
    await ledger.jobs.enqueue({ jobs: [jobDraft], signals, contexts });
    await ledger.jobs.enqueue({ jobs: [jobDraft], signals, contexts });
    expect(await ledger.signals.list({ limit: 10 })).toMatchObject(signals);
    expect(only(await claimAs(ledger, 'p1')).context).toBe('{"bag":1}');
  });

  test('a batch that fails leaves nothing behind', async () => {
    const { ledger, dump } = await openBench(kind);
    const cause = await startOne(ledger, 'p1');
    const before = await dump();
    const signals = [signalOf(cause, 0), signalOf(cause, 0)];
    const contexts = [{ id: makeId(), accumulated: '{}' }];
    await expect(ledger.jobs.enqueue({ jobs: [draft()], signals, contexts })).rejects.toThrow(
      /unique/i,
    );
    expect(await dump()).toEqual(before);
  });

  test('an empty batch is nothing', async () => {
    const { ledger, dump } = await openBench(kind);
    const before = await dump();
    expect(await ledger.jobs.enqueue({ jobs: [] })).toEqual([]);
    expect(await dump()).toEqual(before);
  });

  test('many callers at once are all answered, each for its own', async () => {
    const { ledger } = await openBench(kind);
    const drafts = range(200).map(() => draft());
    const answers = await Promise.all(drafts.map((one) => ledger.jobs.enqueue({ jobs: [one] })));
    expect(answers.map((answer) => only(answer).jobId)).toEqual(drafts.map(({ id }) => id));
    expect(await ledger.jobs.countQueue()).toMatchObject({ ready: 200, delayed: 0, running: 0 });
  });

  test('a unit that cannot be written does not hurt its neighbours', async () => {
    const { ledger } = await openBench(kind);
    const cause = await startOne(ledger, 'p1');
    const bad = { jobs: [draft()], signals: [signalOf(cause), signalOf(cause)] };
    const drafts = range(5).map(() => draft());
    const [a, b, refused, c, d, e] = await Promise.allSettled([
      ...drafts.slice(0, 2).map((one) => ledger.jobs.enqueue({ jobs: [one] })),
      ledger.jobs.enqueue(bad),
      ...drafts.slice(2).map((one) => ledger.jobs.enqueue({ jobs: [one] })),
    ]);
    expect(refused?.status).toBe('rejected');
    expect([a, b, c, d, e].map((one) => one?.status)).toEqual(Array(5).fill('fulfilled'));
    expect((await ledger.jobs.countQueue()).ready).toBe(5);
    expect(await ledger.signals.list({ limit: 10 })).toEqual([]);
  });
});

describe.each(databases)('looking at jobs on %s', (kind) => {
  test('filters, both orders and keyset pages', async () => {
    const { ledger } = await openBench(kind);
    const root = draft({ plugin: 'a', command: 'poll' });
    const children = range(4).map((index) =>
      draft({
        plugin: index % 2 === 0 ? 'a' : 'b',
        parentJobId: index < 3 ? root.id : 'other',
        rootJobId: root.id,
      }),
    );
    const stranger = draft({ plugin: 'b' });
    await ledger.jobs.enqueue({ jobs: [root, ...children, stranger] });
    const ids = [root, ...children, stranger].map(({ id }) => id);
    const pick = (...indexes: number[]) => indexes.map((index) => ids[index]);
    const find = async (filter: Parameters<typeof ledger.jobs.list>[0]) =>
      (await ledger.jobs.list(filter)).map(({ id }) => id);

    expect(await find({ limit: 10 })).toEqual(pick(5, 4, 3, 2, 1, 0));
    expect(await find({ limit: 10, plugin: 'b', order: 'oldest' })).toEqual(pick(2, 4, 5));
    expect(await find({ limit: 10, command: 'poll' })).toEqual(pick(0));
    expect(await find({ limit: 10, rootJobId: root.id, order: 'oldest' })).toEqual(
      pick(0, 1, 2, 3, 4),
    );
    expect(await find({ limit: 10, parentJobId: root.id, order: 'oldest' })).toEqual(pick(1, 2, 3));
    expect(await find({ limit: 10, status: ['running'] })).toEqual([]);
    expect(await find({ limit: 10, status: ['queued', 'running'], plugin: 'a' })).toEqual(
      pick(3, 1, 0),
    );
    const page = await ledger.jobs.list({ limit: 2 });
    const beforeSeq = page.at(-1)?.seq ?? 0;
    expect(await find({ limit: 2, beforeSeq })).toEqual(pick(3, 2));
    expect(await find({ limit: 9, beforeSeq, order: 'oldest' })).toEqual(pick(5));
  });

  test('counts and the oldest that waits', async () => {
    const { ledger, job } = await openBench(kind);
    expect(await ledger.jobs.countQueue()).toEqual({
      ready: 0,
      delayed: 0,
      running: 0,
      oldestReadyAt: null,
    });
    const [first, second] = [draft(), draft()];
    await ledger.jobs.enqueue({ jobs: [first] });
    await ledger.jobs.enqueue({ jobs: [second] });
    const { readyAt } = await job(first.id);
    expect(await ledger.jobs.countQueue()).toMatchObject({ ready: 2, oldestReadyAt: readyAt });
    await claimAs(ledger, 'p1', { slots: 1 });
    expect(await ledger.jobs.countQueue()).toMatchObject({ ready: 1, running: 1 });
  });

  test('an unknown job is undefined', async () => {
    const { ledger } = await openBench(kind);
    expect(await ledger.jobs.find('nobody')).toBeUndefined();
    expect(await ledger.attempts.listByJob(['nobody'])).toEqual([]);
  });
});
