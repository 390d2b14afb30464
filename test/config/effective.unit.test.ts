import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { ExactNumber } from '../../src/base/parse-json.ts';
import type { JsonObject } from '../../src/base/json.ts';
import { makeJsonSchema, listKeys } from '../../src/config/json-schema.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { Config } from '../../src/config/config.ts';
import { meanings } from '../../src/config/meanings.ts';
import { valueAt } from '../../src/config/address.ts';
import { redact, compareKeys } from '../../src/config/effective.ts';
import { makeConfigTree } from '../support/config-tree.ts';

async function load(yaml: string, env: Record<string, string> = {}): Promise<Config> {
  const directory = await makeConfigTree({ 'config.yaml': `plugin_roots: [p]\n${yaml}` });
  return loadConfig({ given: directory, env });
}

describe('the effective configuration', () => {
  test('has what is written as it is written, and defaults for the rest', async () => {
    const { redacted } = await load(
      'service: {dedupe_ttl: 90m, name: "${NAME}"}\nplugins: {echo: {retry: {max_attempts: 2}}}\n',
      { NAME: 'inner-name' },
    );
    expect(redacted).toMatchObject({
      service: { dedupe_ttl: '90m', name: '${NAME}', reap_after: '30s', max_hops: 32 },
      plugins: { echo: { enabled: true, retry: { max_attempts: 2, backoff_base: '30s' } } },
      api: { enabled: false, max_sync_timeout: '5m' },
    });
    expect(redacted).not.toHaveProperty('database');
  });

  test('has no secret, whatever it is called and wherever it is', async () => {
    const config = await load(
      `state: {url: "postgres://me:hunter2@db/x"}
plugins:
  a:
    config:
      api_key: hunter2
      nested: {githubToken: hunter2, keep: this, list: [{password: hunter2}]}
      secrets: [hunter2]
      url: https://u:hunter2@example.org/
      from_env: "\${DEEP}"
      max_tokens: 500
`,
      { DEEP: 'hunter2' },
    );
    expect(JSON.stringify(config.redacted)).not.toContain('hunter2');
    expect(valueAt(config.redacted, ['plugins', 'a', 'config'])).toMatchObject({
      nested: { keep: 'this' },
      from_env: '${DEEP}',
      max_tokens: 500,
    });
  });
});

describe('a secret', () => {
  const yaml = `plugins:
  a:
    schedules:
      - {every: 5m, payload: {password: hunter2, deep: [{apiToken: hunter2}], pwd: 2222222, note: stays}}
    config: {secrets: {github: hunter2}, max_tokens: 500, key: "\${A_TOKEN:-hunter2}"}
pipelines:
  - name: p
    steps:
      - uses: a
        with: {db_password: hunter2, token: "{payload.token}", note: stays}
      - split:
          - {id: in, uses: a, with: {headers: {Authorization: hunter2, X-Token: hunter2}}}
      - foreach: payload.list
        steps: [{uses: a, with: {url: "https://x.test/?access_token=hunter2"}}]
`;

  test.each(['the whole', 'the digest of a reload', 'a comparison'])(
    'in a payload or in a step is not shown by %s',
    async (what) => {
      const before = await load(yaml);
      const written = parse(yaml) as JsonObject;
      const shown: Record<string, () => unknown> = {
        'the whole': () => before.redacted,
        'the digest of a reload': () => redact(written),
        'a comparison': () => compareKeys(written, {}),
      };
      const text = JSON.stringify(shown[what]?.());
      expect(text).not.toMatch(/hunter2|2222222/);
      for (const visible of ['stays', '500', '{payload.token}', '${A_TOKEN:-[redacted]}']) {
        expect(text).toContain(visible);
      }
    },
  );

  test.each([
    [['plugins', 'a', 'schedules', 0, 'payload', 'password']],
    [['plugins', 'a', 'schedules', 0, 'payload', 'deep', 0, 'apiToken']],
    [['plugins', 'a', 'config', 'secrets', 'github']],
    [['pipelines', 0, 'steps', 0, 'with', 'db_password']],
    [['pipelines', 0, 'steps', 1, 'split', 0, 'with', 'headers', 'X-Token']],
    [['handlers', 0, 'params', 'token']],
    [['webhooks', 'endpoints', 0, 'hmac_secret']],
  ])('at %j is not shown by itself', (path) => {
    expect(redact('hunter2', path)).toBe('[redacted]');
  });

  test('is not a number that a double cannot hold, unless its key says so', () => {
    const number = new ExactNumber('12345678901234567890');
    expect(redact({ plugins: { a: { config: { id: number, password: number } } } })).toEqual({
      plugins: { a: { config: { id: number, password: '[redacted]' } } },
    });
  });

  test.each([
    [['plugins', 'rotate_token', 'uses']],
    [['plugins', 'a', 'timeouts', 'rotate_token']],
    [['webhooks', 'endpoints', 0, 'secret_ref']],
    [['webhooks', 0, 'credential']],
    [['tokens', 0, 'name']],
  ])('is not what is at %j', (path) => {
    expect(redact('5m', path)).toBe('5m');
  });
});

describe('the fingerprint', () => {
  test('changes with any active value, secrets included, and with nothing else', async () => {
    const yaml = 'api: {auth: {api_key: "${K}"}}\nplugins: {a: {config: {token: "${T}"}}}\n';
    const prints = await Promise.all([
      load(yaml, { K: 'k', T: 't' }),
      load(`# a comment\n${yaml}`, { K: 'k', T: 't', OTHER: 'x' }),
      load(yaml, { K: 'k2', T: 't' }),
      load(yaml, { K: 'k', T: 't2' }),
      load(`${yaml}service: {max_hops: 3}\n`, { K: 'k', T: 't' }),
    ]);
    const [first, same, ...others] = prints.map(({ fingerprint }) => fingerprint);
    expect(same).toBe(first);
    expect(new Set([first, ...others]).size).toBe(4);
  });
});

test('two configurations are compared key by key, secrets unseen', () => {
  const before = {
    service: { name: 'a' },
    api: { auth: { api_key: 'one' } },
    routes: [{ to: 'x' }],
  };
  const after = { service: { name: 'a', max_hops: 1 }, api: { auth: { api_key: 'two' } } };
  expect(compareKeys(before, after)).toEqual([
    { key: 'api.auth.api_key', before: '"[redacted]"', after: '"[redacted]"' },
    { key: 'routes[0].to', before: '"x"', after: undefined },
    { key: 'service.max_hops', before: undefined, after: '1' },
  ]);
});

describe('the JSON Schema', () => {
  const schema = makeJsonSchema();
  const at = (...path: readonly string[]): unknown =>
    valueAt(
      schema,
      path.flatMap((key) => ['properties', key]),
    );

  test('knows every key, its meaning and its default, in the form in which it is written', () => {
    expect(Object.keys(meanings).toSorted()).toEqual(listKeys().toSorted());
    expect(at('service', 'dedupe_ttl')).toMatchObject({
      type: 'string',
      default: '1d',
      description: meanings['service.dedupe_ttl'],
    });
    expect(at('service', 'max_hops')).toMatchObject({
      anyOf: [{ type: 'integer', minimum: 1 }, { type: 'string' }],
      default: 32,
    });
    expect(at('service', 'max_workers')).not.toHaveProperty('default');
    expect(at('service')).not.toHaveProperty('required');
    expect(at('routes')).toMatchObject({ items: { required: ['event_type', 'to'] } });
    expect(schema).toMatchObject({ additionalProperties: false });
  });

  test('accepts the spellings of the original as deprecated, and keys that start with x-', () => {
    const extensions = { '^x-': {} };
    expect(schema).toMatchObject({ patternProperties: extensions });
    expect(at('service')).toMatchObject({ patternProperties: extensions });
    expect(at('log_level')).toMatchObject({ deprecated: true });
    expect(at('plugins')).not.toHaveProperty('patternProperties');
    const plugin = valueAt(at('plugins'), ['additionalProperties', 'properties']);
    expect(plugin).toMatchObject({
      timeout: { deprecated: true },
      max_attempts: { deprecated: true },
      concurrency_safe: { deprecated: true },
    });
    expect(plugin).not.toHaveProperty('notify_on_complete.deprecated');
    expect(at('webhooks')).toMatchObject({
      anyOf: [
        { properties: { endpoints: { items: { properties: { name: { deprecated: true } } } } } },
        { type: 'array', deprecated: true },
      ],
    });
    expect(at('tokens')).toMatchObject({
      items: {
        properties: { description: { deprecated: true }, created_at: { deprecated: true } },
      },
    });
    expect(at('pipelines')).toMatchObject({
      items: { properties: { 'on-hook': { deprecated: true } } },
    });
  });

  test('says that schedules are written as text', () => {
    const entry = valueAt(at('plugins'), [
      'additionalProperties',
      'properties',
      'schedules',
      'items',
    ]);
    expect(entry).toMatchObject({
      properties: { every: { type: 'string' }, cron: { type: 'string' } },
    });
  });
});
