import { describe, expect, test } from 'vitest';
import { followDeath, followSuccess, followPluginEvents } from '../../src/pipeline/follow-job.ts';
import type { FollowRules } from '../../src/pipeline/follow-rules.ts';
import type { SignalDraft } from '../../src/signal/signal.ts';
import { makeClaimedJob } from '../support/claimed-job.ts';

const nowMs = Date.UTC(2030, 0, 2);
const toSink = { plugin: 'sink', command: 'handle', maxAttempts: 3 };
const toStore = { plugin: 'store', command: 'save', maxAttempts: 1 };

function makeRules(more: Partial<FollowRules> = {}): FollowRules {
  return { targetsOf: () => [toSink], hopsMax: 3, dedupeTtlMs: 1000, ...more };
}

const end = { status: 'dead', reason: 'retries_exhausted', error: 'broken' };

describe('events', () => {
  test('become signals in their order, with the attempt and the place they came from', () => {
    const job = makeClaimedJob({ attempt: 2, rootJobId: 'root', sourceEventId: 'cause', hops: 1 });
    const events = [
      { type: 'a', payload: { n: 1 } },
      { type: 'b', payload: [null] },
    ];
    const { signals } = followPluginEvents(job, events, makeRules({ targetsOf: () => [] }), nowMs);
    const shared = {
      source: 'plugin:worker',
      correlationId: 'root',
      causationId: 'cause',
      jobId: 'job-1',
      jobAttempt: 2,
      hops: 2,
    };
    expect(signals).toMatchObject([
      { ...shared, type: 'a', data: '{"n":1}', eventIndex: 0 },
      { ...shared, type: 'b', data: '[null]', eventIndex: 1 },
    ]);
    expect(signals[0]?.id).not.toBe(signals[1]?.id);
  });

  test('have no causation if no signal caused their job', () => {
    const { signals } = followPluginEvents(
      makeClaimedJob(),
      [{ type: 'a', payload: {} }],
      makeRules(),
      nowMs,
    );
    expect(signals[0]).not.toHaveProperty('causationId');
    expect(signals[0]).not.toHaveProperty('metadata');
  });

  test('cause a job for every target, in the order of the routes', () => {
    const job = makeClaimedJob({ rootJobId: 'root', eventContextId: 'context' });
    const requests: unknown[] = [];
    const rules = makeRules({
      targetsOf(signal) {
        requests.push(signal);
        return [toSink, toStore];
      },
    });
    const { signals, jobs } = followPluginEvents(
      job,
      [{ type: 'a', payload: { n: 1 } }],
      rules,
      nowMs,
    );
    expect(requests).toEqual([{ source: 'worker', type: 'a' }]);
    const shared = {
      submittedBy: 'route',
      actor: 'plugin:worker',
      parentJobId: 'job-1',
      sourceEventId: signals[0]?.id,
      rootJobId: 'root',
      hops: 1,
      runtimeCaused: false,
      eventContextId: 'context',
    };
    expect(jobs).toMatchObject([
      { ...shared, ...toSink },
      { ...shared, ...toStore },
    ]);
    for (const draft of jobs) expect(draft).not.toHaveProperty('dedupe');
  });

  test('go to handle as a whole and to other commands as their payload', () => {
    const rules = makeRules({ targetsOf: () => [toSink, toStore] });
    const events = [{ type: 'a', payload: { n: 1 }, dedupeKey: 'k' }];
    const { signals, jobs } = followPluginEvents(makeClaimedJob(), events, rules, nowMs);
    expect(jobs.map(({ payload }) => JSON.parse(payload) as unknown)).toEqual([
      {
        type: 'a',
        payload: { n: 1 },
        dedupe_key: 'k',
        source: 'worker',
        timestamp: '2030-01-02T00:00:00.000Z',
        event_id: signals[0]?.id,
      },
      { n: 1 },
    ]);
  });

  test('give their dedupe key to the jobs, not to the signal', () => {
    const events = [{ type: 'a', payload: {}, dedupeKey: 'k' }];
    const { signals, jobs } = followPluginEvents(makeClaimedJob(), events, makeRules(), nowMs);
    expect(jobs[0]?.dedupe).toEqual({ key: 'k', ttlMs: 1000, blockInFlight: true });
    expect(signals[0]).not.toHaveProperty('dedupeKey');
    expect(signals[0]?.metadata).toBe('{"schema_version":1,"dedupe_key":"k"}');
  });

  test('have a digest for a dedupe key that is a secret, the same each time', () => {
    const secret = `npm_${'aB3dE5fG7h'.repeat(4)}`;
    const events = [
      { type: 'a', payload: {}, dedupeKey: secret },
      { type: 'a', payload: {}, dedupeKey: secret },
    ];
    const { jobs, signals } = followPluginEvents(makeClaimedJob(), events, makeRules(), nowMs);
    const keys = jobs.map(({ dedupe }) => dedupe?.key);
    expect(keys).toEqual([expect.stringMatching(/^sha256:[0-9a-f]{64}$/), keys[0]]);
    expect(JSON.stringify([jobs, signals])).not.toContain(secret);
  });

  test('without a handler are reported, and are signals anyway', () => {
    const unmatched: SignalDraft[] = [];
    const rules = makeRules({
      targetsOf: ({ type }) => (type === 'a' ? [toSink] : []),
      onUnmatched: (signal) => unmatched.push(signal),
    });
    const events = ['a', 'b'].map((type) => ({ type, payload: {} }));
    const { signals, jobs } = followPluginEvents(makeClaimedJob(), events, rules, nowMs);
    expect(signals).toHaveLength(2);
    expect(jobs).toHaveLength(1);
    expect(unmatched).toEqual([signals[1]]);
  });

  test('beyond the limit of hops are recorded with an incident and routed nowhere', () => {
    const job = makeClaimedJob({ hops: 3 });
    const events = ['a', 'b'].map((type) => ({ type, payload: {} }));
    const { signals, jobs } = followPluginEvents(job, events, makeRules(), nowMs);
    expect(jobs).toEqual([]);
    expect(signals.map(({ type }) => type)).toEqual(['a', 'incident.loop', 'b', 'incident.loop']);
    const incidents = signals.filter(({ type }) => type === 'incident.loop');
    expect(incidents[0]).toMatchObject({ source: 'ductile', subjectId: signals[0]?.id, hops: 4 });
    const places = signals.map(({ eventIndex }) => eventIndex);
    expect(new Set(places).size).toBe(places.length);
  });

  test('at the limit of hops are still routed', () => {
    const job = makeClaimedJob({ hops: 2 });
    const { jobs } = followPluginEvents(job, [{ type: 'a', payload: {} }], makeRules(), nowMs);
    expect(jobs).toMatchObject([{ hops: 3 }]);
  });

  test('a job that the runtime caused passes its cause on to the jobs that follow', () => {
    const job = makeClaimedJob({ runtimeCaused: true });
    const { jobs } = followPluginEvents(job, [{ type: 'a', payload: {} }], makeRules(), nowMs);
    expect(jobs).toMatchObject([{ runtimeCaused: true }]);
  });
});

describe('the idempotency key of what follows', () => {
  const keysOf = (job = makeClaimedJob(), types = ['a', 'a'], targets = [toSink, toStore]) => {
    const events = types.map((type) => ({ type, payload: {} }));
    const rules = makeRules({ targetsOf: () => targets });
    return followPluginEvents(job, events, rules, nowMs).jobs.map(
      ({ idempotencyKey }) => idempotencyKey,
    );
  };

  test('is the same whichever attempt caused it', () => {
    expect(keysOf(makeClaimedJob({ attempt: 3 }))).toEqual(keysOf());
  });

  test('is another for each event, target and parent', () => {
    const other = makeClaimedJob({ id: 'job-2', idempotencyKey: 'job-2' });
    const keys = [...keysOf(), ...keysOf(other)];
    expect(new Set(keys).size).toBe(8);
    const twice = keysOf(makeClaimedJob(), ['a'], [toSink, toSink]);
    expect(twice[0]).not.toBe(twice[1]);
  });
});

describe('a death', () => {
  test('is a signal of the runtime with the whole history', () => {
    const by = { submittedBy: 'webhook', actor: 'webhook:deploys' };
    const from = { parentJobId: 'parent', sourceEventId: 'cause', hops: 1 };
    const job = makeClaimedJob({ attempt: 4, ...by, ...from });
    const { signals } = followDeath(job, end, makeRules(), nowMs);
    expect(signals).toMatchObject([
      {
        type: 'job.dead',
        source: 'ductile',
        subjectType: 'job',
        subjectId: 'job-1',
        jobId: 'job-1',
        jobAttempt: 4,
        causationId: 'cause',
        hops: 2,
      },
    ]);
    expect(signals[0]?.eventIndex).toBeLessThan(0);
    expect(JSON.parse(signals[0]?.data ?? '')).toEqual({
      message: `Job job-1 (worker poll) ended as ${end.status}: ${end.error}`,
      next: 'ductile why job-1',
      job_id: 'job-1',
      plugin: 'worker',
      command: 'poll',
      ...end,
      attempt: 4,
      parent_job_id: 'parent',
      submitted_by: 'webhook',
      actor: 'webhook:deploys',
    });
  });

  test('is routed as coming from the runtime', () => {
    const requests: unknown[] = [];
    const rules = makeRules({
      targetsOf(signal) {
        requests.push(signal);
        return [toSink];
      },
    });
    const { signals, jobs } = followDeath(makeClaimedJob(), end, rules, nowMs);
    expect(requests).toEqual([{ source: 'ductile', type: 'job.dead' }]);
    expect(jobs).toMatchObject([
      { ...toSink, actor: 'ductile', runtimeCaused: true, sourceEventId: signals[0]?.id },
    ]);
    expect(JSON.parse(jobs[0]?.payload ?? '')).toMatchObject({
      type: 'job.dead',
      source: 'ductile',
      payload: { job_id: 'job-1' },
    });
  });

  test.each([
    ['of a job that the runtime caused', makeClaimedJob({ runtimeCaused: true })],
    ['beyond the limit of hops', makeClaimedJob({ hops: 3 })],
  ])('%s is recorded and not routed', (_name, job) => {
    const { signals, jobs } = followDeath(job, end, makeRules(), nowMs);
    expect(signals).toHaveLength(1);
    expect(jobs).toEqual([]);
  });
});

describe('a success', () => {
  const reply = { result: 'done', events: [{ type: 'a', payload: {} }] };
  const notifying = makeRules({ notifying: new Set(['worker']), targetsOf: () => [toSink] });

  test('is not reported unless the plugin asks for it', () => {
    const { signals } = followSuccess(makeClaimedJob(), reply, makeRules(), nowMs);
    expect(signals.map(({ type }) => type)).toEqual(['a']);
    const other = makeRules({ notifying: new Set(['another']) });
    expect(followSuccess(makeClaimedJob(), reply, other, nowMs).signals).toHaveLength(1);
  });

  test('is a signal of the runtime, after the events, with what the plugin answered', () => {
    const { signals, jobs } = followSuccess(
      makeClaimedJob({ attempt: 2 }),
      reply,
      notifying,
      nowMs,
    );
    expect(signals.map(({ type }) => type)).toEqual(['a', 'job.succeeded']);
    expect(signals[1]).toMatchObject({ source: 'ductile', subjectId: 'job-1', jobAttempt: 2 });
    expect(JSON.parse(signals[1]?.data ?? '')).toMatchObject({
      job_id: 'job-1',
      plugin: 'worker',
      command: 'poll',
      status: 'succeeded',
      result: 'done',
      notify_on_complete: true,
      message: 'Job job-1 (worker poll) succeeded: done',
      text: 'Job job-1 (worker poll) succeeded: done',
      attempt: 2,
    });
    expect(jobs).toMatchObject([{ runtimeCaused: false }, { runtimeCaused: true }]);
    expect(new Set(jobs.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(2);
  });

  test('does not show a secret that the plugin answered', () => {
    const secret = `npm_${'aB3dE5fG7h'.repeat(4)}`;
    const { signals, jobs } = followSuccess(
      makeClaimedJob(),
      { result: `token ${secret}`, events: [] },
      notifying,
      nowMs,
    );
    expect(JSON.stringify([signals, jobs])).not.toContain(secret);
  });

  test('a job that a runtime signal caused is recorded and starts nothing', () => {
    const job = makeClaimedJob({ runtimeCaused: true });
    const { signals, jobs } = followSuccess(job, { ...reply, events: [] }, notifying, nowMs);
    expect(signals).toMatchObject([{ type: 'job.succeeded' }]);
    expect(jobs).toEqual([]);
  });

  test('a step of a run is not reported, because the run continues', () => {
    const job = makeClaimedJob({ runId: 'run-1' });
    const { signals } = followSuccess(job, { ...reply, events: [] }, notifying, nowMs);
    expect(signals).toEqual([]);
  });

  test('and a death have a text only for a plugin with notify_on_complete', () => {
    const [plain] = followDeath(makeClaimedJob(), end, makeRules(), nowMs).signals;
    expect(plain?.data).not.toMatch(/notify_on_complete|text/);
    const [told] = followDeath(makeClaimedJob(), end, notifying, nowMs).signals;
    expect(JSON.parse(told?.data ?? '')).toMatchObject({
      notify_on_complete: true,
      text: 'Job job-1 (worker poll) ended as dead: broken',
    });
  });
});
