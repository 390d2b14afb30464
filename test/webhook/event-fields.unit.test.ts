import { expect, test } from 'vitest';
import { checkEventFields } from '../../src/webhook/event-type.ts';
import type { Scheme } from '../../src/webhook/verify/verify.ts';

const scheme = { kind: 'bearer', header: 'x-shop-key' } as unknown as Scheme;

function check(fields: Parameters<typeof checkEventFields>[0]): string[] {
  const found: string[] = [];
  checkEventFields(fields, scheme, (key, message) => void found.push(`${key} ${message}`));
  return found;
}

test('headers that hold nothing secret are passed on', () => {
  expect(check({})).toEqual([]);
  expect(check({ event_header: 'x-kind', headers: ['x-shop', 'x-region'] })).toEqual([]);
  expect(check({ event_field: 'type' })).toEqual([]);
});

test.each([
  [{ event_header: 'x-kind', event_field: 'type' }, 'event_field and event_header exclude'],
  [{ event_header: 'x-shop-key' }, 'event_header is x-shop-key, which authenticates the sender'],
  [
    { headers: ['x-shop', 'authorization'] },
    'headers has authorization, which authenticates the sender',
  ],
  [{ headers: ['x-hub-signature-256'] }, 'headers has x-hub-signature-256'],
  [{ headers: ['password'] }, 'headers has password'],
])('%j is refused', (fields, message) => {
  expect(check(fields)).toEqual([expect.stringContaining(message)]);
});
