/** W3C's traceparent: what is one, and what is as if nothing had been said. */
import { expect, test } from 'vitest';
import {
  createTraceContext,
  parseTraceparent,
  toSpanId,
  toTraceId,
  formatTraceparent,
} from '../../src/base/trace.ts';

const trace = '0af7651916cd43dd8448eb211c80319c';
const span = 'b7ad6b7169203331';

test('a valid traceparent is parsed and formatted again', () => {
  const place = parseTraceparent(`00-${trace}-${span}-01`);
  expect(place).toEqual({ traceId: trace, spanId: span, isSampled: true });
  expect(parseTraceparent(`00-${trace}-${span}-02`)?.isSampled).toBe(false);
  expect(parseTraceparent(`cc-${trace}-${span}-01-what-comes-later`)).toEqual(place);
  expect(place && formatTraceparent(place)).toBe(`00-${trace}-${span}-01`);
});

test.each([
  undefined,
  7,
  '',
  `00-${trace}-${span}`,
  `00-${trace}-${span}-01-more`,
  `ff-${trace}-${span}-01`,
  `00-${'0'.repeat(32)}-${span}-01`,
  `00-${trace}-${'0'.repeat(16)}-01`,
  `00-${trace.toUpperCase()}-${span}-01`,
  `cc-${trace}-${span}-01-${'x'.repeat(200)}`,
  `00-${trace}-${span}-01\n`,
])('%j is none', (text) => {
  expect(parseTraceparent(text)).toBeUndefined();
});

test('ids are made from ids, the same each time', () => {
  expect(toTraceId('0199a1b2-0000-7000-8000-000000000001')).toBe(
    '0199a1b2000070008000000000000001',
  );
  expect(toTraceId('anything')).toMatch(/^[0-9a-f]{32}$/);
  expect(toSpanId('job', 1)).toBe(toSpanId('job', 1));
  expect(toSpanId('job', 1)).not.toBe(toSpanId('job', 2));
});

test('a child position stays in its trace', () => {
  const outer = { traceId: trace, spanId: span, isSampled: false };
  expect(createTraceContext(outer)).toMatchObject({ traceId: trace, isSampled: false });
  expect(createTraceContext(outer).spanId).not.toBe(span);
  expect(createTraceContext(undefined).isSampled).toBe(true);
});
