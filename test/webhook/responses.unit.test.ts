/** What a sender learns about a verified delivery, and what is counted about the others. */
import { describe, expect, test } from 'vitest';
import { DuctileError } from '../../src/base/errors.ts';
import { limits } from '../../src/base/limits.ts';
import { createUnavailableResponse, toVerifiedResponse } from '../../src/webhook/check.ts';
import { describeDeliveryEvent, toEventRules } from '../../src/webhook/event-type.ts';
import { createRejectedCounter } from '../../src/webhook/rate-limit.ts';
import { traceparentIn, type IncomingDelivery } from '../../src/webhook/request.ts';
import { describeTarget, type WebhookTarget } from '../../src/webhook/target.ts';
import { makeRequest } from './support.ts';

const accepted = {
  signalId: 's1',
  isNew: true,
  jobId: undefined,
  runId: undefined,
  skipped: undefined,
};

describe('the response to a verified delivery', () => {
  test('names the signal', () => {
    expect(toVerifiedResponse('deploys', accepted)).toEqual({
      response: { status: 202, body: { accepted: true, hook_id: 'deploys', signal_id: 's1' } },
      isNew: true,
    });
  });

  test('names the work of the first delivery for a duplicate', () => {
    const first = { ...accepted, isNew: false, jobId: 'j1', runId: 'r1', status: 'running' };
    expect(toVerifiedResponse('deploys', first)).toMatchObject({
      response: {
        status: 200,
        body: { duplicate: true, job_id: 'j1', run_id: 'r1', status: 'running' },
      },
      isNew: false,
    });
  });

  test('says why its target was not started', () => {
    const skipped = { ...accepted, skipped: 'skipped:quiet_hours' };
    expect(toVerifiedResponse('deploys', skipped).response.body).toMatchObject({
      skipped: 'quiet_hours',
    });
  });

  test('says nothing about the first delivery to a copy', () => {
    expect(toVerifiedResponse('deploys', { isReplay: true })).toEqual({
      response: { status: 409, body: { error: 'replayed' } },
      isNew: false,
      refused: 'replayed',
    });
  });

  test.each([
    ['PLUGIN_NOT_FOUND', 503, 'target_unavailable'],
    ['LEDGER_UNAVAILABLE', 503, 'target_unavailable'],
    ['IDEMPOTENCY_MISMATCH', 422, 'idempotency_mismatch'],
    ['INPUT_INVALID', 422, 'payload_refused'],
  ] as const)('to a target that fails with %s is %i %s', (code, status, error) => {
    const { response } = toVerifiedResponse('deploys', { error: new DuctileError(code, 'x') });
    expect(response).toMatchObject({ status, body: { error } });
  });

  test('asks the sender to come again when a limit is reached', () => {
    expect(createUnavailableResponse(new DuctileError('TENANT_LIMIT', 'x'))).toEqual({
      status: 429,
      body: { error: 'rate_limited' },
      retryAfterSeconds: limits.webhookRetryAfterSeconds,
    });
  });
});

describe('the event of a delivery', () => {
  const webhook = (fields: Parameters<typeof toEventRules>[0]) => ({
    id: 'deploys',
    eventRules: toEventRules(fields),
  });

  test('has its type, the sender’s id and the configured headers', () => {
    const request = makeRequest({ 'x-github-event': 'push', 'x-team': 'red' });
    const content = { payload: {}, event: undefined, deliveryId: 'd1' };
    const rules = { auth_mode: 'github', headers: ['x-team'] };
    expect(describeDeliveryEvent(webhook(rules), request, content)).toEqual({
      id: 'deploys',
      event: 'push',
      event_type: 'push',
      delivery_id: 'd1',
      headers: { 'x-team': 'red' },
    });
  });

  test('is left out if the sender names neither a type nor a header', () => {
    const content = { payload: {}, event: undefined, deliveryId: null };
    const event = describeDeliveryEvent(webhook({ auth_mode: 'bearer' }), makeRequest({}), content);
    expect(event).toBeUndefined();
  });
});

test('deliveries over the rate limit are counted per webhook until they are old', () => {
  const counter = createRejectedCounter();
  expect(counter.count('a', 0)).toBe(0);
  counter.note('a', 0);
  counter.note('a', 1);
  counter.note('b', 1);
  expect([counter.count('a', 2), counter.count('b', 2)]).toEqual([2, 1]);
  expect(counter.count('a', limits.webhookThrottledMs + 2)).toBe(0);
});

test('the longest idle count is dropped when there are too many', () => {
  const counter = createRejectedCounter();
  for (let index = 0; index <= limits.webhookWindowsMax; index += 1) counter.note(`w${index}`, 0);
  expect([counter.count('w0', 0), counter.count('w1', 0)]).toEqual([0, 1]);
});

test('a trace context counts only if the sender sends exactly one', () => {
  const given = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
  const incoming = (headers: readonly (readonly [string, string])[]) =>
    ({ request: { ...makeRequest({}), headers } }) as unknown as IncomingDelivery;
  expect(traceparentIn(incoming([['traceparent', given]]))).toBe(given);
  expect(traceparentIn(incoming([['traceparent', 'x']]))).toBeUndefined();
  expect(traceparentIn(incoming([]))).toBeUndefined();
  const twice = incoming([
    ['traceparent', given],
    ['traceparent', given],
  ]);
  expect(traceparentIn(twice)).toBeUndefined();
});

test.each([
  [{ kind: 'command', plugin: 'mail', command: 'send' }, 'a job of mail.send'],
  [{ kind: 'pipeline', pipeline: 'release' }, 'a run of release'],
  [{ kind: 'signal', type: 'deploy' }, 'a signal deploy'],
  [{ kind: 'agent', mode: 'wake' }, 'a turn of an agent with each allowed user'],
  [{ kind: 'agent', mode: 'task', taskFolder: '/tasks' }, 'a task of an agent in /tasks'],
] as const)('the target %j is described', (target, described) => {
  expect(describeTarget(target as unknown as WebhookTarget)).toBe(described);
});
