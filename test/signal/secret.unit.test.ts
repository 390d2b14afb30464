import { describe, expect, test } from 'vitest';
import { findSecret, maskData } from '../../src/signal/mask.ts';

describe('data that may be kept', () => {
  test('is the same when it holds no secret', () => {
    const data = { page_token: 'x', list: [1, 'two'], password: '' };
    expect(maskData(data, 'data')).toEqual({ value: data, paths: [] });
    expect(maskData(data, 'data').value).toBe(data);
  });

  test('has no secret left, and says where they were', () => {
    const data = {
      user: { Password: 'x1', tokens: ['a'] },
      list: [{ api_key: 12345 }, 'Bearer abcdefghijkl', { credentials: ['a', 'b'] }],
      url: 'https://ann:pw@x.test/',
    };
    const { value, paths } = maskData(data, 'data');
    expect(findSecret(value, 'data')).toBeUndefined();
    expect(paths).toEqual([
      'data.user.Password',
      'data.list[0].api_key',
      'data.list[1]',
      'data.list[2].credentials',
      'data.url',
    ]);
    expect(value).toEqual({
      user: { Password: '[redacted]', tokens: ['a'] },
      list: [{ api_key: '[redacted]' }, 'Bearer [redacted]', { credentials: '[redacted]' }],
      url: 'https://ann:[redacted]@x.test/',
    });
    expect(data.user.Password).toBe('x1');
  });
});
