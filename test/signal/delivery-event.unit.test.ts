import { describe, expect, test } from 'vitest';
import {
  deliveryEventIn,
  eventBehind,
  toEventBaggage,
  toEventMetadata,
} from '../../src/signal/signal.ts';

const event = { id: 'shop', event: 'orders.create', event_type: 'orders/create' };
const metadata = JSON.stringify({ schema_version: 1, ...toEventMetadata(event) });

describe('the event of a delivery', () => {
  test('is read from the metadata of its signal', () => {
    const signal = { source: 'webhook:shop', metadata };
    expect(deliveryEventIn(signal)).toEqual(event);
    expect(eventBehind(signal)).toBe('orders.create');
  });

  test.each([
    ['another source', { source: 'plugin:shop', metadata }],
    ['no metadata', { source: 'webhook:shop' }],
    ['metadata without it', { source: 'webhook:shop', metadata: '{"schema_version":1}' }],
    ['metadata in which it is text', { source: 'webhook:shop', metadata: '{"webhook":"x"}' }],
    ['metadata that is a list', { source: 'webhook:shop', metadata: '[{"webhook":{}}]' }],
  ])('is not there with %s', (_, signal) => {
    expect(deliveryEventIn(signal)).toBeUndefined();
    expect(eventBehind(signal)).toBeUndefined();
  });

  test('has no type if the sender says none', () => {
    const none = JSON.stringify(toEventMetadata({ id: 'shop' }));
    expect(eventBehind({ source: 'webhook:shop', metadata: none })).toBeUndefined();
  });

  test('is baggage in the part that no step may write', () => {
    expect(toEventBaggage(event)).toEqual({ ductile: { webhook: event } });
    expect([toEventBaggage(undefined), toEventMetadata(undefined)]).toEqual([{}, {}]);
  });
});
