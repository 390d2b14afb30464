import { describe, expect, test } from 'vitest';
import {
  fromCloudEvent,
  fromCloudEvents,
  isCloudEventBatch,
  readCloudEvent,
  toBinaryCloudEvent,
  toCloudEvent,
  wantsBinaryCloudEvents,
} from '../../src/signal/cloudevent.ts';

const event = {
  specversion: '1.0',
  id: 'e-1',
  type: 'order.paid',
  source: '/shops/1',
  subject: 'order/42',
  time: '2026-11-15T12:00:00Z',
  datacontenttype: 'application/json',
  correlationid: 'c',
  traceparent: 't',
  data: { n: 1 },
};

const report = {
  type: 'order.paid',
  source: '/shops/1',
  source_event_id: 'e-1',
  subject: 'order/42',
  occurred_at: '2026-11-15T12:00:00Z',
  data: { n: 1 },
  metadata: { traceparent: 't', correlation_id: 'c' },
};

describe('a CloudEvent that comes', () => {
  test('whole is a report', () => {
    const headers = { 'content-type': 'Application/CloudEvents+JSON; charset=utf-8' };
    expect(fromCloudEvent(readCloudEvent(headers, event))).toEqual(report);
  });

  test('with its attributes in headers is the same report', () => {
    const headers = {
      'content-type': 'application/json',
      'ce-specversion': '1.0',
      'ce-id': 'e-1',
      'ce-type': 'order.paid',
      'ce-source': '/shops/1',
      'ce-subject': 'order%2F42',
      'ce-time': '2026-11-15T12:00:00Z',
      'ce-correlationid': 'c',
      'ce-traceparent': 't',
    };
    expect(fromCloudEvent(readCloudEvent(headers, { n: 1 }))).toEqual(report);
  });

  test('may have no data, or data without names', () => {
    const { data: _, ...bare } = event;
    expect(fromCloudEvent(bare)).toMatchObject({ data: {} });
    expect(fromCloudEvent({ ...event, data: [1, 2] })).toMatchObject({ data: { value: [1, 2] } });
    expect(fromCloudEvent({ ...event, data: null })).toMatchObject({ data: { value: null } });
  });

  test('is not there in an ordinary request', () => {
    expect(readCloudEvent({ 'content-type': 'application/json' }, event)).toBeUndefined();
    expect(readCloudEvent({}, undefined)).toBeUndefined();
  });

  test.each([
    ['another version', { ...event, specversion: '0.3' }, 'specversion'],
    ['no id', { ...event, id: '' }, 'id'],
    ['no source', { ...event, source: undefined }, 'source'],
    ['bytes', { ...event, data_base64: 'AA==' }, 'data_base64'],
    ['no object', [event], 'body'],
  ])('with %s is refused', (_, wrong, place) => {
    expect(() => fromCloudEvent(wrong)).toThrow(expect.objectContaining({ place }));
  });

  test('in another form or with a broken header is refused', () => {
    const other = { 'content-type': 'application/cloudevents+xml' };
    expect(() => readCloudEvent(other, '')).toThrow(/application\/cloudevents-batch\+json/);
    const broken = { 'ce-specversion': '1.0', 'ce-id': '%zz' };
    expect(() => readCloudEvent(broken, {})).toThrow(/ce-id/);
  });

  test.each([
    ['ce-id', '%00', 'contains the character U+0000'],
    ['ce-__proto__', '1', 'has the key __proto__'],
  ])('with %s: %s in a header is refused', (name, value, why) => {
    const headers = Object.fromEntries([
      ['ce-specversion', '1.0'],
      [name, value],
    ]);
    expect(() => readCloudEvent(headers, {})).toThrow(
      expect.objectContaining({ code: 'INPUT_INVALID', message: expect.stringContaining(why) }),
    );
  });
});

test('a signal goes out as a CloudEvent', () => {
  const signal = {
    signal_id: 's-1',
    type: 'file found',
    source: 'plugin:mail box',
    subject_type: null,
    subject_id: '42',
    data: { n: 1 },
    correlation_id: 'c',
    causation_id: null,
    occurred_at: '2026-11-15T12:00:00.000Z',
    inserted_at: '2026-11-15T12:00:01.000Z',
  };
  expect(toCloudEvent(signal)).toEqual({
    specversion: '1.0',
    id: 's-1',
    type: 'file found',
    source: 'plugin:mail%20box',
    subject: '42',
    time: '2026-11-15T12:00:00.000Z',
    recordedtime: '2026-11-15T12:00:01.000Z',
    correlationid: 'c',
    datacontenttype: 'application/json',
    data: { n: 1 },
  });
  expect(toCloudEvent({ ...signal, subject_id: null })).not.toHaveProperty('subject');
  const evil = { ...signal, type: 'found\r\nset-cookie: é"%' };
  const { headers, data } = toBinaryCloudEvent(evil);
  expect(data).toEqual({ n: 1 });
  expect(Object.fromEntries(headers)).toEqual({
    'ce-specversion': '1.0',
    'ce-id': 's-1',
    'ce-type': 'found%0D%0Aset-cookie:%20%C3%A9%22%25',
    'ce-source': 'plugin:mail%2520box',
    'ce-subject': '42',
    'ce-time': '2026-11-15T12:00:00.000Z',
    'ce-recordedtime': '2026-11-15T12:00:01.000Z',
    'ce-correlationid': 'c',
  });
  expect(readCloudEvent(Object.fromEntries(headers), data)).toMatchObject({ type: evil.type });
});

describe('data in Base64', () => {
  const { data: _, datacontenttype: _type, ...bare } = event;
  const base64 = (text: string): string => Buffer.from(text).toString('base64');
  const dataOf = (more: object) => fromCloudEvent({ ...bare, ...more })['data'];

  test('is read if it is JSON, whichever JSON it is called', () => {
    expect(dataOf({ data_base64: base64('{"n":1}') })).toEqual({ n: 1 });
    const datacontenttype = 'application/vnd.shop+json; charset=utf-8';
    expect(dataOf({ data_base64: base64('[1]'), datacontenttype })).toEqual({ value: [1] });
  });

  test('stays as it is if it is something else', () => {
    const other = { data_base64: base64('x'), datacontenttype: 'text/plain' };
    expect(dataOf(other)).toEqual(other);
  });

  test.each([7, 'no base64!', 'ab_=', base64('{'), base64('{"a":1,"a":2}')])(
    'is refused if it is %j',
    (bytes) => {
      expect(() => dataOf({ data_base64: bytes })).toThrow('data_base64');
    },
  );

  test('is refused beside data', () => {
    expect(() => dataOf({ data: {}, data_base64: base64('{}') })).toThrow('send one of them');
  });
});

describe('a batch', () => {
  const type = 'application/cloudevents-batch+json; charset=utf-8';

  test('is known by its media type', () => {
    expect(isCloudEventBatch({ 'content-type': type })).toBe(true);
    expect(isCloudEventBatch({})).toBe(false);
  });

  test('is read event by event, and a fault has its index', () => {
    expect(fromCloudEvents([event, event])).toEqual([report, report]);
    expect(() => fromCloudEvents([event, { ...event, id: '' }])).toThrow('[1] id must be text');
    expect(() => fromCloudEvents(event)).toThrow('must be a list');
  });

  test('events without data have empty data', () => {
    const { data: _, ...bare } = event;
    expect(fromCloudEvents([bare, { ...bare, data: 'text' }])).toMatchObject([
      { data: {} },
      { data: { value: 'text' } },
    ]);
  });
});

test('headers say whether a client speaks of CloudEvents', () => {
  expect(wantsBinaryCloudEvents({ 'ce-specversion': '1.0' })).toBe(true);
  expect(wantsBinaryCloudEvents({})).toBe(false);
});
