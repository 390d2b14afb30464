import { expect, test } from 'vitest';
import { isSecretName, maskSecrets, maskText, REDACTED } from '../../src/base/secrets.ts';

test.each([
  'token',
  'api_key',
  'apiKey',
  'github_token',
  'client-secret',
  'PASSWORD',
  'DB_PASSWORD',
])('%s names a secret', (name) => expect(isSecretName(name)).toBe(true));

test.each(['token_url', 'keyboard', 'secretary', 'path', 'monkey'])('%s does not', (name) =>
  expect(isSecretName(name)).toBe(false),
);

test('a name is judged the same however many others came before', () => {
  for (let round = 0; round < 2; round += 1) {
    for (let number = 0; number < 2500; number += 1) {
      expect(isSecretName(`name${number}_token`)).toBe(true);
      expect(isSecretName(`token_name${number}`)).toBe(false);
    }
  }
  expect(isSecretName(`${'x'.repeat(5000)}_password`)).toBe(true);
});

test('passwords in URLs and known tokens are masked wherever they stand', () => {
  expect(maskText('see postgres://me:hunter2@db/x')).toBe(`see postgres://me:${REDACTED}@db/x`);
  expect(maskText(`a ghp_${'x'.repeat(36)} b`)).toBe(`a ${REDACTED} b`);
  expect(maskText('http://host:8080/path')).toBe('http://host:8080/path');
});

test('fields are masked at every depth, and what contains itself does not hang', () => {
  const fields: Record<string, unknown> = {
    a: { api_key: 'x', n: 3 },
    list: ['s', { token: 't' }],
  };
  expect(maskSecrets(fields)).toEqual({
    a: { api_key: REDACTED, n: 3 },
    list: ['s', { token: REDACTED }],
  });
  fields['self'] = fields;
  expect(JSON.stringify(maskSecrets(fields))).toContain(REDACTED);
});
