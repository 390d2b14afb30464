import { describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { parseIpAddress, toAddressGroup } from '../../src/http/client-address.ts';

describe('the source of an address', () => {
  test.each([
    ['7.7.7.7', '7.7.7.7'],
    ['7.7.7.7:1234', '7.7.7.7'],
    ['::ffff:7.7.7.7', '7.7.7.7'],
    ['::FFFF:7.7.7.7', '7.7.7.7'],
    ['[::ffff:7.7.7.7]:443', '7.7.7.7'],
    ['::ffff:707:707', '7.7.7.7'],
    ['0:0:0:0:0:ffff:7.7.7.7', '7.7.7.7'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['2001:db8:0:0:1:2:3:4', '2001:db8:0:0::/64'],
    ['2001:0DB8:0000::9', '2001:db8:0:0::/64'],
    ['[2001:db8::1]:443', '2001:db8:0:0::/64'],
    ['[2001:db8::1]', '2001:db8:0:0::/64'],
    ['2001:db8:0:1::1', '2001:db8:0:1::/64'],
    ['2001:db8:1::', '2001:db8:1:0::/64'],
    ['64:ff9b::7.7.7.7', '64:ff9b:0:0::/64'],
    ['1:2:3:4:5:6:7.7.7.7', '1:2:3:4::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['[fe80::1%eth0]:80', 'fe80:0:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::', '0:0:0:0::/64'],
    ['unknown', 'unknown'],
    ['7.7.7', '7.7.7'],
    ['7.7.7.7:12345678', '7.7.7.7:12345678'],
    ['[2001:db8::1', '[2001:db8::1'],
    ['[7.7.7.7]', '[7.7.7.7]'],
    ['', ''],
  ])('%j is %j', (address, source) => {
    expect(toAddressGroup(address)).toBe(source);
  });

  test('is never longer than its limit, whatever the header contains', () => {
    expect(toAddressGroup('x'.repeat(1000))).toBe('x'.repeat(limits.webhookSourceChars));
  });
});

test('an address without what stands around it is whole', () => {
  expect(parseIpAddress('[2001:db8::1%en0]:443')).toBe('2001:db8::1');
  expect(parseIpAddress('::ffff:10.0.0.1')).toBe('10.0.0.1');
  expect(parseIpAddress('10.0.0.1:80')).toBe('10.0.0.1');
  expect(parseIpAddress('nobody')).toBeUndefined();
});
