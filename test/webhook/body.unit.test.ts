import { describe, expect, test } from 'vitest';
import { readDeliveryBody, type AcceptedMedia } from '../../src/webhook/request.ts';
import { makeRequest } from './support.ts';

const read = (type: string, body: string | Buffer, accepts: AcceptedMedia = 'all') =>
  readDeliveryBody(makeRequest({ 'content-type': type }, body), accepts);

function faultOf(body: ReturnType<typeof readDeliveryBody>): string {
  return body.ok ? 'none' : body.fault;
}

const form = 'application/x-www-form-urlencoded';
const event = { specversion: '1.0', id: 'e', type: 'order.paid', source: '/s', data: { n: 1 } };

describe('JSON', () => {
  test.each([
    'application/json',
    'application/json; charset=utf-8',
    'Application/JSON;charset="UTF-8"',
    'application/json; foo=bar',
    'application/json; q="a;charset=utf-16"; charset=utf8;',
  ])('W-22 is read as %s', (type) => {
    expect(read(type, '{"a":[1]}', 'json')).toEqual({ ok: true, payload: { a: [1] } });
  });

  test('W-22 of a kind of its own is read unless document 4 decides', () => {
    for (const type of ['application/vnd.github+json', 'application/vnd.github+json; v=3']) {
      expect(read(type, '{"a":[1]}')).toEqual({ ok: true, payload: { a: [1] } });
      expect(faultOf(read(type, '{}', 'json'))).toBe('media_type_unsupported');
    }
  });

  test.each(['[]', '"x"', '1', 'null', 'true'])("W-24 %s isn't an object", (body) => {
    expect(faultOf(read('application/json', body))).toBe('body_must_be_object');
  });

  test.each([
    '',
    '{',
    '{"a":1}x',
    '\ufeff{}',
    '{"a":NaN}',
    '{"a":1,"a":2}',
    '{"__proto__":{}}',
    '{"a":"\\u0000"}',
    '{"a":"\\ud800"}',
    `{"a":${'['.repeat(100)}${']'.repeat(100)}}`,
  ])('%j is not accepted', (body) => {
    expect(faultOf(read('application/json', body))).toBe('invalid_json');
  });

  test('is UTF-8', () => {
    expect(faultOf(read('application/json', Buffer.from('{"a":"\xe9"}', 'latin1')))).toBe(
      'invalid_json',
    );
  });
});

describe('the declared type', () => {
  test.each([
    'text/plain',
    'multipart/form-data; boundary=x',
    'application/json; charset=utf-16',
    'application/json; foo=bar; charset="latin1"',
    'application/json; foo=bar, text/plain',
    'application/json; foo="bar',
    'application/json; charset=utf-8; charset=utf-16',
    'application/jsonp',
    'application/cloudevents-batch+json',
    'application/cloudevents+avro',
    'application/json, text/plain',
    '',
  ])('W-21 %j is not accepted', (type) => {
    expect(faultOf(read(type, '{}'))).toBe('media_type_unsupported');
  });

  test('alone decides; what came twice or compressed is not accepted', () => {
    expect(faultOf(read(form, '{"files":[]}', 'json'))).toBe('media_type_unsupported');
    const type = ['content-type', 'application/json'] as const;
    for (const headers of [
      [type, type],
      [type, ['content-encoding', 'gzip'] as const],
      [type, ['content-encoding', 'identity'] as const, ['content-encoding', 'gzip'] as const],
    ]) {
      expect(faultOf(readDeliveryBody(makeRequest(headers, '{}'), 'all'))).toBe(
        'media_type_unsupported',
      );
    }
    const plain = makeRequest([type, ['content-encoding', 'identity']], '{}');
    expect(readDeliveryBody(plain, 'all')).toMatchObject({ ok: true });
  });

  test('a document-4 webhook accepts JSON alone', () => {
    expect(faultOf(read('application/cloudevents+json', '{}', 'json'))).toBe(
      'media_type_unsupported',
    );
  });
});

describe('a form', () => {
  test('that is an object in JSON is that, whatever its sender calls it', () => {
    expect(read(form, '{"a":"1&b=2"}')).toEqual({ ok: true, payload: { a: '1&b=2' } });
    expect(faultOf(read(form, '{"a":1}x'))).toBe('invalid_json');
    const large = read(form, '{ "a": {"id": 12345678901234567890} }');
    expect(JSON.stringify(large)).toBe('{"ok":true,"payload":{"a":{"id":12345678901234567890}}}');
    expect(read(form, '{a}=1')).toEqual({ ok: true, payload: { '{a}': '1' } });
    expect(read(form, '[1]')).toEqual({ ok: true, payload: { '[1]': '' } });
    expect(faultOf(read(form, '{"a":1}', 'json'))).toBe('media_type_unsupported');
  });

  test('becomes an object of text', () => {
    expect(read(form, 'a=1&b=x+y%2Fz&c&d=%C3%A9&l=1&l=2&&e=')).toEqual({
      ok: true,
      payload: { a: '1', b: 'x y/z', c: '', d: 'é', l: ['1', '2'], e: '' },
    });
    expect(read(`${form}; charset=utf-8`, '')).toEqual({ ok: true, payload: {} });
    expect(read(`${form}; foo=bar`, 'a=1')).toEqual({ ok: true, payload: { a: '1' } });
  });

  test('with JSON in its one field payload is that', () => {
    const wrapped = `payload=${encodeURIComponent('{"action":"opened"}')}`;
    expect(read(form, wrapped)).toEqual({ ok: true, payload: { action: 'opened' } });
    expect(read(form, `${wrapped}&x=1`)).toMatchObject({ payload: { x: '1' } });
    expect(read(form, 'payload=5')).toMatchObject({ payload: { payload: '5' } });
    expect(read(form, `payload=${encodeURIComponent('{"a":1,"a":2}')}`)).toEqual({
      ok: false,
      fault: 'invalid_json',
      message: 'the field payload has a key twice in one object',
    });
  });

  test.each(['a=%zz', 'a=%f', '%ff=1', '__proto__=1', 'a=%00', 'a=1&'.repeat(10_001)])(
    '%s is not accepted',
    (body) => {
      expect(faultOf(read(form, body))).toBe('invalid_json');
    },
  );
});

describe('N-04 a CloudEvent', () => {
  const structured = read('application/cloudevents+json; charset=utf-8', JSON.stringify(event));
  const binary = (headers: readonly (readonly [string, string])[], body = '{"n":1}') =>
    readDeliveryBody(makeRequest([['content-type', 'application/json'], ...headers], body), 'all');
  const attributes = [
    ['ce-specversion', '1.0'],
    ['ce-id', 'e'],
    ['ce-type', 'order.paid'],
    ['ce-source', '/s'],
  ] as const;

  test('is the same in its body and in headers', () => {
    expect(structured).toEqual({
      ok: true,
      payload: { n: 1 },
      event: { type: 'order.paid', source: '/s', source_event_id: 'e', data: { n: 1 } },
    });
    expect(binary(attributes)).toEqual(structured);
  });

  test('needs its attributes, once', () => {
    for (const [name] of attributes) {
      const others = attributes.filter(([other]) => other !== name);
      expect([name, faultOf(binary(others))]).toEqual([name, 'invalid_event']);
    }
    expect(faultOf(binary([['ce-time', '2026-01-01T00:00:00Z']]))).toBe('invalid_event');
    expect(faultOf(binary([...attributes, ['ce-id', 'f']]))).toBe('invalid_event');
    expect(faultOf(binary([...attributes, ['ce-subject', '%']]))).toBe('invalid_event');
    const { source: _, ...rest } = event;
    const missing = read('application/cloudevents+json', JSON.stringify(rest));
    expect(faultOf(missing)).toBe('invalid_event');
  });

  test('may have data without names', () => {
    expect(binary(attributes, '[1]')).toMatchObject({ payload: { value: [1] } });
  });
});

test('a body of only payload is unwrapped in the order of older programs, and kept otherwise', () => {
  const type = 'application/json';
  const wrapped = '{"payload":{"ref":1}}';
  expect(read(type, wrapped, 'json')).toEqual({ ok: true, payload: { ref: 1 } });
  expect(read(type, wrapped)).toEqual({ ok: true, payload: { payload: { ref: 1 } } });
  for (const other of ['{"payload":1}', '{"payload":[1]}', '{"payload":{},"more":1}', '{}']) {
    expect(read(type, other, 'json')).toEqual({ ok: true, payload: JSON.parse(other) as unknown });
  }
});
