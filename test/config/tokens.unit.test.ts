import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { makeConfigTree, listProblems } from '../support/config-tree.ts';

async function problems(api: string, env = {}): Promise<string[]> {
  return listProblems(await makeConfigTree({ 'config.yaml': `plugin_roots: [p]\n${api}` }), {
    env,
  });
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

test('tokens of all forms are known by their digest, and their text is nowhere', async () => {
  const directory = await makeConfigTree({
    'config.yaml': `plugin_roots: [p]
api:
  enabled: true
  auth:
    api_key: legacy-key
    tokens:
      - {name: admin, token: "\${ADMIN}", scopes: ["*"]}
      - {token: unnamed-token}
tokens:
  - {name: ci, key: ci-key, scopes: ["jobs:ro"]}
`,
  });
  const config = loadConfig({ given: directory, env: { ADMIN: 'from-the-environment' } });
  expect(config.api.auth.tokens).toEqual([
    { name: 'api_key', digest: sha256('legacy-key'), scopes: ['*'], place: at('5:5') },
    { name: 'admin', digest: sha256('from-the-environment'), scopes: ['*'], place: at('7:9') },
    { name: 'token-2', digest: sha256('unnamed-token'), scopes: [], place: at('8:9') },
    { name: 'ci', digest: sha256('ci-key'), scopes: ['jobs:ro'], place: at('10:5') },
  ]);
  const text = JSON.stringify(config);
  for (const secret of ['legacy-key', 'from-the-environment', 'unnamed-token', 'ci-key']) {
    expect(text).not.toContain(secret);
  }
  expect(config.redacted).toMatchObject({
    api: { auth: { api_key: '[redacted]', tokens: [{ name: 'admin', token: '${ADMIN}' }, {}] } },
    tokens: [{ name: 'ci', key: '[redacted]', scopes: ['jobs:ro'] }],
  });
  function at(place: string): string {
    return `${join(directory, 'config.yaml')}:${place}`;
  }
});

describe('refused', () => {
  test('an enabled API without a token', async () => {
    expect(await problems('api: {enabled: true}\n')).toEqual([
      'config.yaml:2:1 api.auth.tokens must not be empty while api.enabled is true',
    ]);
    expect(await problems('api: {enabled: true, auth: {tokens: []}}\n')).toHaveLength(1);
  });

  test('a token that is empty, blank or never filled in, even while the API is off', async () => {
    expect(await problems('api: {auth: {api_key: ""}}\n')).toEqual([
      'config.yaml:2:14 api.auth.api_key must not be blank',
    ]);
    expect(await problems('api: {auth: {tokens: [{token: "${T}"}]}}\n', { T: '' })).toEqual([
      'config.yaml:2:24 api.auth.tokens[0].token must not be blank',
    ]);
    expect((await problems('api: {auth: {tokens: [{token: "${T}"}]}}\n'))[0]).toContain(
      'uses the environment variable T, which is not set',
    );
    expect((await problems('tokens: [{name: a, scopes: []}]\n'))[0]).toContain('key is required');
  });

  test('the same token or name twice', async () => {
    const found = await problems(
      'api: {auth: {tokens: [{name: a, token: x1}, {name: a, token: x2}, {name: b, token: x1}]}}\n',
    );
    expect(found).toEqual([
      'config.yaml:2:45 api.auth.tokens[1] is the second token with the name a',
      'config.yaml:2:67 api.auth.tokens[2] is the same token as another one',
    ]);
  });

  test('a token file entry without scopes that a webhook may have meant', async () => {
    const text = `tokens: [{name: gthub, key: k}]
webhooks:
  endpoints:
    - {path: /gh, plugin: p, secret_ref: github, signature_header: X-Sig}
`;
    expect((await problems(text)).join()).toMatch(
      /tokens\[0\]\.scopes is required, unless .* the secret_ref of a webhook: \/gh uses github$/,
    );
  });

  test('a token file entry without scopes, and a scope file that says none', async () => {
    expect(await problems('tokens: [{name: a, key: k}]\n')).toEqual([
      'config.yaml:2:10 tokens[0].scopes is required',
    ]);
    expect(
      (await problems('tokens: [{name: a, key: k, scopes: [], scopes_file: s}]\n'))[0],
    ).toContain('both say what the token may do');
    expect((await problems('tokens: [{name: a, key: k, scopes_file: gone.json}]\n'))[0]).toContain(
      'which cannot be read',
    );
    const directory = await makeConfigTree({
      'config.yaml': 'plugin_roots: [p]\ntokens: [{name: a, key: k, scopes_file: s.json}]\n',
      's.json': '["jobs:ro"]',
    });
    expect(listProblems(directory)[0]).toContain('never locked');
  });

  test('but not the secret of a webhook, which opens nothing', async () => {
    const endpoint = '{path: /a, plugin: p, secret_ref: s, signature_header: X}';
    const section = `webhooks: {endpoints: [${endpoint}]}\n`;
    const secret = '{name: s, key: k}';
    expect(await problems(`${section}tokens: [${secret}, ${secret}]\n`)).toEqual([
      'config.yaml:3:29 tokens[1] is the second token with the name s',
    ]);
    const text = `plugin_roots: [p]\n${section}tokens: [${secret}]\n`;
    const { api, webhooks } = loadConfig({ given: await makeConfigTree({ 'config.yaml': text }) });
    expect(api.auth.tokens).toEqual([]);
    expect(webhooks.endpoints).toMatchObject([{ secret: 'k' }]);
  });

  test('a secret of the wrong type is not shown', async () => {
    const found = await problems('api: {auth: {api_key: 7654321}}\n');
    expect(found).toEqual(['config.yaml:2:14 api.auth.api_key must be text, not "[redacted]"']);
  });
});
