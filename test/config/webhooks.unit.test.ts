import { expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { makeConfigTree, listProblems } from '../support/config-tree.ts';

const endpoint = '{path: /a, plugin: p, secret_ref: s, signature_header: X-Sig}';

function tree(webhooks: string): Promise<string> {
  return makeConfigTree({ 'config.yaml': `plugin_roots: [p]\nwebhooks: ${webhooks}\n` });
}

test('no listener is opened for webhooks by default', async () => {
  const empty = loadConfig({ given: await tree('{}'), env: {} });
  expect(empty.webhooks).toMatchObject({ enabled: false, host: '127.0.0.1', port: 8081 });
  const config = loadConfig({ given: await tree(`{endpoints: [${endpoint}]}`), env: {} });
  expect(config.webhooks).toMatchObject({
    enabled: true,
    port: 8081,
    order: 'strict',
    endpoints: [{ path: '/a', command: 'handle', maxBodyBytes: 1024 * 1024, secret: undefined }],
  });
});

test('a secret of tokens is found by its name, and shown nowhere', async () => {
  const text = `plugin_roots: [p]
tokens: [{name: s, key: hush-hush-hush-hush, scopes: []}]
webhooks: {endpoints: [{path: /a, plugin: p, secret_ref: s, signature_header: X, max_body_size: 2KB}]}
`;
  const config = loadConfig({ given: await makeConfigTree({ 'config.yaml': text }), env: {} });
  expect(config.webhooks.endpoints).toMatchObject([
    { secret: 'hush-hush-hush-hush', maxBodyBytes: 2048 },
  ]);
  expect(JSON.stringify(config.redacted)).not.toContain('hush');
});

test.each(['2KB', '2 KB', '2KiB', '2 kib', '2k', '2048B', '2048'])(
  'a body may be as large as %s',
  async (size) => {
    const at = `{endpoints: [${endpoint.replace('}', `, max_body_size: ${size}}`)}]}`;
    const { webhooks } = loadConfig({ given: await tree(at), env: {} });
    expect(webhooks.endpoints[0]?.maxBodyBytes).toBe(2048);
  },
);

test.each([
  ['{listen: nowhere}', 'webhooks.listen'],
  ['{trusted_proxies: [10.0.0.0/33]}', 'trusted_proxies'],
  ['{trusted_proxies: [proxy]}', 'trusted_proxies'],
  ['{order: loose}', 'order'],
  ['{public_url: hooks.example.org}', 'public_url'],
  [`{endpoints: [${endpoint}, ${endpoint}]}`, 'path'],
  [`{endpoints: [${endpoint.replace('/a', '/healthz')}]}`, 'path'],
  [`{endpoints: [${endpoint.replace('/a', '/hooks/a')}]}`, 'path'],
  [`{endpoints: [${endpoint.replace('/a', 'a')}]}`, 'path'],
  ['{endpoints: [{path: /a, plugin: p, signature_header: X}]}', 'secret_ref'],
  ['{endpoints: [{path: /a, plugin: p, secret_ref: s}]}', 'signature_header'],
  [`{endpoints: [${endpoint.replace('}', ', max_body_size: 9GB}')}]}`, 'max_body_size'],
])('an invalid endpoint is refused with its location: %s', async (webhooks, key) => {
  const [problem, ...others] = listProblems(await tree(webhooks));
  expect(others).toEqual([]);
  expect(problem).toContain(key);
});
