/**
 * Texts that are recognized as secrets, and texts that aren't. They are built from parts: no file
 * here holds a token.
 */
import { describe, expect, test } from 'vitest';
import { isSecretKey, maskText, REDACTED } from '../../src/base/secrets.ts';

const letters = (count: number): string => 'aB3dE5fG7h'.repeat(10).slice(0, count);
const hex = (count: number): string => '0a1b2c3d4e5f6789'.repeat(5).slice(0, count);
const base64 = (text: string): string => Buffer.from(text).toString('base64');

const tokens: readonly (readonly [string, string])[] = [
  ['an API token of Ductile', `duct_${letters(43)}`],
  ['a run token of Ductile', `dtr_${letters(43)}`],
  ['GitHub', `ghp_${letters(36)}`],
  ['GitHub OAuth', `gho_${letters(36)}`],
  ['GitHub fine-grained', `github_pat_${letters(22)}_${letters(59)}`],
  ['GitLab', `glpat-${letters(20)}`],
  ['GitLab runner', `glrt-${letters(20)}`],
  ['Slack bot', `xoxb-123456789012-${letters(24)}`],
  ['Slack app', `xapp-1-A012345678-${letters(24)}`],
  ['OpenAI', `sk-${letters(48)}`],
  ['OpenAI project', `sk-proj-${letters(48)}`],
  ['Anthropic', `sk-ant-api03-${letters(48)}`],
  ['Stripe secret', `sk_live_${letters(24)}`],
  ['Stripe restricted', `rk_live_${letters(24)}`],
  ['Stripe test', `sk_test_${letters(24)}`],
  ['Stripe webhook', `whsec_${letters(32)}`],
  ['AWS', `AKIA${'ABCDEF01'.repeat(2)}`],
  ['AWS temporary', `ASIA${'ABCDEF01'.repeat(2)}`],
  ['Google API', `AIza${letters(35)}`],
  ['Google OAuth', `ya29.${letters(60)}`],
  ['Google client', `GOCSPX-${letters(28)}`],
  ['Azure', `AccountKey=${letters(80)}==`],
  ['npm', `npm_${letters(36)}`],
  ['PyPI', `pypi-AgEIcHlwaS5vcmc${letters(60)}`],
  ['Docker', `dckr_pat_${letters(27)}`],
  ['Hugging Face', `hf_${letters(34)}`],
  ['SendGrid', `SG.${letters(22)}.${letters(43)}`],
  ['DigitalOcean', `dop_v1_${hex(64)}`],
  ['Shopify', `shpat_${hex(32)}`],
  ['Telegram', `1234567890:AA${letters(33)}`],
  ['Vault', `hvs.${letters(24)}`],
  ['Tailscale', `tskey-auth-${letters(24)}`],
  ['Atlassian', `ATATT3xFfGF0${letters(40)}`],
  ['Grafana', `glsa_${letters(32)}`],
  ['age', `AGE-SECRET-KEY-1${'QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L'.repeat(2).slice(0, 58)}`],
  ['a JWT', `eyJ${letters(20)}.eyJ${letters(30)}.${letters(43)}`],
  ['a Slack webhook', `hooks.slack.com/services/T00000000/B00000000/${letters(24)}`],
  ['a Discord webhook', `discord.com/api/webhooks/123456789012345678/${letters(68)}`],
];

const pem = (kind: string): string =>
  [
    `-----BEGIN ${kind}PRIVATE KEY-----`,
    letters(64),
    letters(20),
    `-----END ${kind}PRIVATE KEY-----`,
  ].join('\n');

describe('a text with', () => {
  test.each(tokens)('%s has none left, wherever it is', (_, token) => {
    expect(maskText(token)).toBe(REDACTED);
    expect(maskText(`see ${token}, it is`)).toBe(`see ${REDACTED}, it is`);
    expect(maskText(`"${token}"`)).toBe(`"${REDACTED}"`);
    expect(maskText(`https://x.test/?q=${token}`)).not.toContain(token.slice(-10));
    expect(maskText(`key=${token}\nnext`)).toBe(`key=${REDACTED}\nnext`);
  });

  test.each(['', 'RSA ', 'EC ', 'OPENSSH ', 'ENCRYPTED ', 'DSA '])(
    'a %sPEM key has none left',
    (kind) => {
      const key = pem(kind);
      expect(maskText(`a ${key} b`)).toBe(`a ${REDACTED} b`);
      expect(maskText(JSON.stringify({ key }))).toBe(`{"key":"${REDACTED}"}`);
      expect(maskText(`cut ${key.slice(0, 60)}`)).toBe(`cut ${REDACTED}`);
      expect(maskText(`${key}\n${key}`)).toBe(`${REDACTED}\n${REDACTED}`);
    },
  );

  test.each([
    [
      'a Basic header',
      `Authorization: Basic ${base64('ann:hunter2')}`,
      `Authorization: Basic ${REDACTED}`,
    ],
    ['a basic header in small letters', `basic ${base64('ann:')}`, `basic ${REDACTED}`],
    ['a Bearer header', 'Bearer abcdefghijkl', `Bearer ${REDACTED}`],
    ['a parameter', 'GET /x?access_token=hunter2&page=2', `GET /x?access_token=${REDACTED}&page=2`],
    [
      'a later parameter',
      '/x?a=1&client_secret=hunter2#top',
      `/x?a=1&client_secret=${REDACTED}#top`,
    ],
    ['a password in a URL', 'postgres://me:hunter2@db/x', `postgres://me:${REDACTED}@db/x`],
    ['a token of a bot in a URL', `/bot1234567890:AA${letters(33)}/send`, `/bot${REDACTED}/send`],
    ['JSON', '{"db_password": "hun\\"ter2", "n": 1}', `{"db_password": "${REDACTED}", "n": 1}`],
    ['JSON that was cut', 'got {"pwd":"hunter2', `got {"pwd":"${REDACTED}`],
    ['a backslash at its end', '{"pwd":"hunter2\\\\","n":"x"}', `{"pwd":"${REDACTED}","n":"x"}`],
  ])('%s has none left', (_, text, expected) => {
    expect(maskText(text)).toBe(expected);
    expect(maskText(expected)).toBe(expected);
  });

  test('JSON inside JSON inside JSON has none left, and is still JSON', () => {
    const inner = JSON.stringify({ user: 'ann', oauthToken: 'hun"ter\\2', next: 'stays' });
    const outer = JSON.stringify({ body: JSON.stringify({ body: inner }) });
    for (const text of [inner, JSON.stringify({ body: inner }), outer]) {
      const masked = maskText(text);
      expect(masked).not.toContain('ter');
      let value = JSON.parse(masked) as { body?: string };
      while (value.body !== undefined) value = JSON.parse(value.body) as { body?: string };
      expect(value).toEqual({ user: 'ann', oauthToken: REDACTED, next: 'stays' });
    }
  });
});

test.each([
  'The basic authentication scheme sends basic information, basically.',
  'https://example.org/items?page_token=abc&token_type=bearer&max=3',
  'commit 0a1b2c3d4e5f60718293a4b5c6d7e8f901234567 by ann@example.org',
  '0199aabb-ccdd-7eee-8fff-001122334455',
  'refs/heads/sk-feature and risk-assessment-of-the-whole-department',
  'task-force, desk-bound, husk_live_show, npm_config_registry, hf_model',
  'SG.1 is Singapore; AIzawa is a name; ASIA-PACIFIC; AKIAK',
  'user:AA battery, 12:AAA, ratio 1:AA',
  '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----',
  '-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----',
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUA',
  'http://host:8080/path?key=value',
  '{"password_policy":"strict","page_token":"x","pwd":"/srv/app","password":""}',
  'ghp_short, glpat-short, xoxb-1, duct_tape_is_useful, dtr_x',
  'See https://docs.gitlab.com/glpat-tokens and npm_lifecycle_event',
  'eyJhbGciOiJIUzI1NiJ9 alone is the head of a token',
  'Key=value; AccountKey=short',
])('%s is left as it is', (text) => {
  expect(maskText(text)).toBe(text);
});

test.each([
  'pwd',
  'dbPassword',
  'db_password',
  'oauth_token',
  'AWS_SECRET_ACCESS_KEY',
  'X-Auth-Token',
])('%s names a secret', (name) => expect(isSecretKey(name)).toBe(true));

test.each([
  'page_token',
  'password_policy',
  'tokens',
  'key',
  'pass',
  'secretary',
  'cookie_consent',
])('%s names none', (name) => expect(isSecretKey(name)).toBe(false));

test.each([
  ['x', 'x'.repeat(1_000_000)],
  ['-eyJ', '-eyJ'.repeat(250_000)],
  ['a- before a URL', `${'a-'.repeat(500_000)}a://b:c@d`],
  ['quotes', '"'.repeat(1_000_000)],
  ['backslashes', `${'\\'.repeat(1_000_000)}"`],
  ['keys', '"password":"'.repeat(80_000)],
  ['sk-', 'sk-'.repeat(300_000)],
  ['SG.', 'SG.'.repeat(300_000)],
  ['PEM', `-----BEGIN PRIVATE KEY-----`.repeat(35_000)],
  ['bearer', 'bearer '.repeat(150_000)],
  ['digits', `${'1'.repeat(1_000_000)}:AA`],
  ['URLs', `${'a://b:'.repeat(150_000)}@`],
  ['parameters', `${'?token'.repeat(150_000)}=`],
])('a megabyte of %s takes a time that grows with its length', (_, text) => {
  const started = performance.now();
  maskText(text);
  // Alone it takes some milliseconds; the square of the length would take minutes.
  expect(performance.now() - started).toBeLessThan(5_000);
});
