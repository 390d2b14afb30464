/** The starts of runs, and the effect of a job's end on the branch that waited for it. */
import { describe, expect, test, vi } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { makeLogger } from '../../src/base/log.ts';
import { createJobArrival } from '../../src/pipeline/run/changes.ts';
import { makeBasePayloads } from '../../src/job/run-plugin.service.ts';
import { followDeath, followPluginEvents } from '../../src/pipeline/follow-job.ts';
import { type Pipeline, createPipelineMatcher } from '../../src/pipeline/language/pipeline.ts';
import { limits } from '../../src/base/limits.ts';
import { endAsCancelled, endAsSucceeded, type Ending } from '../../src/job/outcome.ts';
import { encodeRequest } from '../../src/plugin/protocol.ts';
import { makeClaimedJob } from '../support/claimed-job.ts';

function makePipeline(name: string, more: Partial<Pipeline> = {}): Pipeline {
  const graph = { hash: `hash of ${name}` } as Pipeline['graph'];
  const usual = { name, on: 'made', fromPlugin: undefined, when: undefined, graph };
  return { ...usual, mode: 'async', timeoutMs: 1000, concurrency: undefined, ...more } as Pipeline;
}

function collect(): { log: ReturnType<typeof makeLogger>; lines: string[] } {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  return { log: makeLogger({ level: 'warn', format: 'json', destination }), lines };
}

function rulesOf(pipelines: readonly Pipeline[]) {
  const { log, lines } = collect();
  const startsOf = createPipelineMatcher(pipelines, log);
  return { lines, rules: { targetsOf: () => [], startsOf, hopsMax: 3, dedupeTtlMs: 1000 } };
}

describe('an event', () => {
  test('starts every pipeline that wants it, with what a run must know', () => {
    const { rules } = rulesOf([
      makePipeline('a'),
      makePipeline('b', { on: 'else' }),
      makePipeline('c'),
    ]);
    const job = makeClaimedJob({ rootJobId: 'root', hops: 1, eventContextId: 'baggage' });
    const { runs, signals, jobs } = followPluginEvents(
      job,
      [{ type: 'made', payload: 7 }],
      rules,
      0,
    );
    expect(jobs).toEqual([]);
    expect(runs.map(({ pipeline }) => pipeline)).toEqual(['a', 'c']);
    expect(runs[0]).toMatchObject({
      definitionHash: 'hash of a',
      payload: '{"value":7}',
      parentJobId: job.id,
      rootJobId: 'root',
      sourceEventId: signals[0]?.id,
      submittedBy: 'route',
      actor: 'plugin:worker',
      hops: 2,
      eventContextId: 'baggage',
    });
    const again = followPluginEvents(job, [{ type: 'made', payload: 7 }], rules, 0).runs;
    expect(again.map(({ lineage }) => lineage)).toEqual(runs.map(({ lineage }) => lineage));
    expect(new Set(runs.map(({ lineage }) => lineage)).size).toBe(2);
    for (const run of runs) expect(run).not.toHaveProperty('dedupe');
    const keyed = { type: 'made', payload: 7, dedupeKey: 'k' };
    for (const { dedupe } of followPluginEvents(job, [keyed], rules, 0).runs) {
      expect(dedupe).toEqual({ key: 'k', ttlMs: 1000 });
    }
  });

  test('is counted as unmatched only when neither route nor pipeline wants it', () => {
    const onUnmatched = vi.fn<() => void>();
    const { rules } = rulesOf([makePipeline('a')]);
    followPluginEvents(
      makeClaimedJob(),
      [{ type: 'made', payload: {} }],
      { ...rules, onUnmatched },
      0,
    );
    expect(onUnmatched).not.toHaveBeenCalled();
    followPluginEvents(
      makeClaimedJob(),
      [{ type: 'other', payload: {} }],
      { ...rules, onUnmatched },
      0,
    );
    expect(onUnmatched).toHaveBeenCalledOnce();
  });

  test('has one key of concurrency for equal values, of each pipeline its own', () => {
    const concurrency = { key: { ref: ['payload', 'who'] }, limit: 2 };
    const { rules } = rulesOf([
      makePipeline('a', { concurrency }),
      makePipeline('b', { concurrency }),
    ]);
    const keysOf = (who: string) =>
      followPluginEvents(makeClaimedJob(), [{ type: 'made', payload: { who } }], rules, 0).runs.map(
        ({ concurrency: own }) => own?.key,
      );
    expect(keysOf('ann')).toEqual(keysOf('ann'));
    expect(new Set([...keysOf('ann'), ...keysOf('ben')]).size).toBe(4);
  });

  test('without the value of such a key is not lost: it uses that of null, and a warning is logged', () => {
    const concurrency = { key: { ref: ['payload', 'who'] }, limit: 2 };
    const { rules, lines } = rulesOf([makePipeline('a', { concurrency }), makePipeline('b')]);
    const follow = (payload: JsonObject) =>
      followPluginEvents(makeClaimedJob(), [{ type: 'made', payload }], rules, 0).runs;
    const [first, second] = follow({});
    expect([first?.pipeline, second?.pipeline]).toEqual(['a', 'b']);
    expect(first?.concurrency).toMatchObject({ limit: 2 });
    expect(lines.join('')).toContain('payload.who');
    expect(follow({ who: null })[0]?.concurrency).toEqual(first?.concurrency);
    expect(follow({ who: 'ann' })[0]?.concurrency).not.toEqual(first?.concurrency);
  });

  test('from the runtime about its own consequences starts nothing', () => {
    const { rules } = rulesOf([makePipeline('alarm', { on: 'job.dead' })]);
    const end = { status: 'dead', reason: 'retries_exhausted', error: 'broken' };
    expect(followDeath(makeClaimedJob(), end, rules, 0).runs).toHaveLength(1);
    const caused = makeClaimedJob({ runtimeCaused: true });
    expect(followDeath(caused, end, rules, 0).runs).toEqual([]);
  });
});

describe('the end of a job', () => {
  const job = makeClaimedJob({ branchId: 'branch' });
  const ended = (status: Ending['status'], reason: string | null): Ending => ({
    ...endAsSucceeded(job),
    status,
    reason,
  });

  test('that succeeded gives its branch the events and the result', () => {
    const output = { events: [{ n: 1 }], result: 'done' };
    expect(createJobArrival(endAsSucceeded(job), null, output)).toEqual({
      kind: 'done',
      ...output,
    });
    const none = { kind: 'done', events: [], result: null };
    expect(createJobArrival(endAsSucceeded(job), null)).toEqual(none);
  });

  test.each([
    [ended('dead', 'retries_exhausted'), 'retries_exhausted'],
    [ended('failed', 'exit'), 'retries_exhausted'],
    [ended('dead', 'crashes_exhausted'), 'crashes_exhausted'],
    [ended('timed_out', 'retries_exhausted'), 'timeout'],
    [endAsCancelled(job), 'cancelled'],
  ])('$0.status by $0.reason halts its branch by %s', (ending, reason) => {
    expect(createJobArrival(ending, 'broken')).toEqual({ kind: 'failed', reason, error: 'broken' });
    const error = `the job is ${ending.status}`;
    expect(createJobArrival(ending, null)).toEqual({ kind: 'failed', reason, error });
  });
});

describe('the branches below a block', () => {
  test('is read once for many, again after a failure, and not kept for ever', async () => {
    const read = vi.fn<(key: string) => Promise<string>>((key) =>
      Promise.resolve(`{"key":"${key}","item":0}`),
    );
    read.mockRejectedValueOnce(new Error('away'));
    const bases = makeBasePayloads(read);
    await expect(bases('a')).rejects.toThrow('away');
    const [first, second] = await Promise.all([bases('a'), bases('a')]);
    expect(first.without(['item']).toString()).toBe('"key":"a"');
    expect(second.without([]).toString()).toBe('"key":"a","item":0');
    expect(second.without(['key', 'item'])).toHaveLength(0);
    expect(read).toHaveBeenCalledTimes(2);
    for (let index = 0; index < limits.basePayloadsMax; index += 1) await bases(`other ${index}`);
    await bases('a');
    expect(read).toHaveBeenCalledTimes(limits.basePayloadsMax + 3);
  });

  test.each([
    ['"a":1', { b: 2 }, { a: 1, b: 2 }],
    ['"a":1', {}, { a: 1 }],
    ['', { b: 2 }, { b: 2 }],
    ['', {}, {}],
  ])('%s under %j reaches the plugin as one payload', (beneath, payload, whole) => {
    const request = {
      jobId: 'job',
      command: 'handle',
      instance: 'worker',
      attempt: 1,
      idempotencyKey: 'key',
      config: {},
      state: {},
      context: {},
      payload,
      deadlineAt: '2030-01-01T00:00:00.000Z',
      step: { runId: 'run', stepId: 'step', beneath: Buffer.from(beneath) },
    };
    const sent: unknown = JSON.parse(encodeRequest(request).toString());
    const ids = { run_id: 'run', step_id: 'step', job_id: 'job' };
    expect(sent).toMatchObject({ ...ids, event: { type: 'pipeline.step' } });
    expect(sent).toHaveProperty('payload', whole);
    expect(sent).toHaveProperty('event.payload', whole);
  });
});
