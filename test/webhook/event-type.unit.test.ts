import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import {
  normalizeEvent,
  readDeliveryEvent,
  toEventRules,
  type EventFields,
} from '../../src/webhook/event-type.ts';
import { makeRequest } from './support.ts';

type Headers = Parameters<typeof makeRequest>[0];

function read(fields: EventFields, headers: Headers, payload: JsonObject, cloud?: JsonObject) {
  return readDeliveryEvent(toEventRules(fields), makeRequest(headers), payload, cloud);
}

describe('the event type', () => {
  test.each<[string, Headers, JsonObject, string | undefined]>([
    ['github', { 'x-github-event': 'push' }, {}, 'push'],
    ['gitlab', { 'x-gitlab-event': 'Push Hook' }, {}, 'push_hook'],
    ['shopify', { 'x-shopify-topic': 'orders/create' }, {}, 'orders.create'],
    ['stripe', {}, { type: 'invoice.paid' }, 'invoice.paid'],
    ['slack', {}, { type: 'event_callback', event: { type: 'app_mention' } }, 'app_mention'],
    ['slack', {}, { type: 'block_actions' }, 'block_actions'],
    ['slack', {}, { command: '/deploy' }, 'slash_command'],
    ['slack', {}, {}, undefined],
    ['twilio', {}, { EventType: 'onMessageAdded' }, 'onmessageadded'],
    ['twilio', {}, { MessageStatus: 'delivered' }, 'message.delivered'],
    ['twilio', {}, { SmsStatus: 'received' }, 'message.received'],
    ['twilio', {}, { CallStatus: 'ringing' }, 'call.ringing'],
    ['twilio', {}, {}, undefined],
    ['hmac', { 'x-event-key': 'repo:push' }, {}, 'repo.push'],
    ['hmac', { 'x-event-key': ' ' }, { type: 'x' }, undefined],
    [
      'github',
      [
        ['x-github-event', 'push'],
        ['x-github-event', 'ping'],
      ],
      {},
      undefined,
    ],
  ])('for %s with %j and %j is %s', (mode, headers, payload, event) => {
    expect(read({ auth_mode: mode }, headers, payload).event).toBe(event);
  });

  test('is where the webhook says, before what is known of its sender', () => {
    const headers = { 'x-kind': 'Made', 'x-github-event': 'push' };
    expect(read({ auth_mode: 'github', event_header: 'x-kind' }, headers, {})).toEqual({
      eventType: 'Made',
      event: 'made',
      headers: {},
    });
    const inBody = { auth_mode: 'github', event_field: 'meta.kind' };
    expect(read(inBody, headers, { meta: { kind: 'a/b' } }).event).toBe('a.b');
    expect(read(inBody, headers, { meta: 'text' }).event).toBeUndefined();
    expect(read(inBody, headers, {}).event).toBeUndefined();
  });

  test('for a CloudEvent is its own', () => {
    expect(read({}, { 'x-event-key': 'x' }, {}, { type: 'com.shop.paid' }).event).toBe(
      'com.shop.paid',
    );
  });

  test('that has no word in it has no form to be matched by', () => {
    expect(normalizeEvent('///')).toBeUndefined();
    expect(read({ event_header: 'x-kind' }, { 'x-kind': '!!!' }, {})).toMatchObject({
      eventType: '!!!',
      event: undefined,
    });
  });

  test('comes with the configured headers, without secrets', () => {
    const token = ['gh', 'p_', 'a'.repeat(36)].join('');
    const headers: Headers = [
      ['x-shop', 'one'],
      ['x-shop', 'two'],
      ['x-note', token],
    ];
    const { headers: passed } = read({ headers: ['x-shop', 'x-note', 'x-none'] }, headers, {});
    expect(passed).toEqual({ 'x-shop': 'one, two', 'x-note': expect.not.stringContaining(token) });
  });
});
