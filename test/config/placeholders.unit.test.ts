import { describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { makeConfigTree, listProblems } from '../support/config-tree.ts';

const roots = 'plugin_roots: [p]\n';

async function problems(yaml: string, env = {}): Promise<string[]> {
  return listProblems(await makeConfigTree({ 'config.yaml': `${roots}${yaml}` }), { env });
}

async function textOf(written: string, env = {}): Promise<unknown> {
  const yaml = `${roots}plugins: {e: {config: {text: ${JSON.stringify(written)}}}}\n`;
  const directory = await makeConfigTree({ 'config.yaml': yaml });
  return loadConfig({ given: directory, env }).plugins['e']?.config['text'];
}

const invalid = [
  '${',
  '${}',
  '${ X }',
  '${x.y}',
  '${GH-SECRET}',
  '${my-var}',
  '${X-default}',
  '${X:?message}',
  '${X:+other}',
  '${1}',
  '${X',
  '${X:-a{b}}',
  '${X:-${Y}}',
  'Bearer ${my-var} and more',
  '$${X} ${',
];

describe('a text that only looks like a placeholder', () => {
  test.each(invalid)('%s is refused as a token, with its line and column', async (written) => {
    const yaml = `api: {auth: {tokens: [{token: ${JSON.stringify(written)}}]}}\n`;
    const found = await problems(yaml, { X: 'x', Y: 'y', x: 'x' });
    expect(found[0]).toBe(
      "config.yaml:2:24 api.auth.tokens[0].token has `${`, which isn't a placeholder",
    );
  });

  test.each([
    ['the service', 'service: {name: "${my-var}"}\n', 'service.name'],
    ['a plugin', 'plugins: {e: {config: {a: [{b: "${my-var}"}]}}}\n', 'plugins.e.config.a[0].b'],
    ['a disabled plugin', 'plugins: {e: {enabled: false, config: {a: "${my-var}"}}}\n', 'config.a'],
    ['the database', 'state: {url: "postgres://u:${my-var}@h/d"}\n', 'state.url'],
    [
      'a step',
      'pipelines: [{name: a, on: b, steps: [{uses: e, with: {a: "${my-var}"}}]}]\n',
      'with.a',
    ],
    ['a webhook', 'webhooks: {public_url: "https://${my-var}"}\n', 'webhooks.public_url'],
    ['a key', 'plugins: {e: {config: {"${X}": 1}}}\n', 'plugins.e.config["${X}"]'],
  ])('is an error in %s', async (_, yaml, key) => {
    const found = await problems(yaml, { X: 'x' });
    expect(found[0]).toContain(key);
    expect(found[0]).toMatch(/isn't a placeholder|keys are not interpolated/);
  });

  test('is an error in an included file, with that file and its line', async () => {
    const directory = await makeConfigTree({
      'config.yaml': `${roots}include: [more.yaml]\n`,
      'more.yaml': '# tokens\ntokens:\n  - {name: ci, key: "${CI-TOKEN}", scopes: ["*"]}\n',
    });
    expect(listProblems(directory)).toEqual([
      "more.yaml:3:16 tokens[0].key has `${`, which isn't a placeholder",
    ]);
  });

  test("is shown if the value isn't a secret, and never if it is one", async () => {
    const [open] = await problems('service: {name: "${my-var}"}\n');
    expect(open).toContain('`${my-var}`');
    const [hidden] = await problems('plugins: {e: {config: {password: "hun${ter-2}"}}}\n');
    expect(hidden).not.toContain('ter-2');
  });

  test('is an error in an environment file unless single quotes say that it is meant', async () => {
    const directory = await makeConfigTree({
      'config.yaml': `${roots}environment_vars: {include: [a.env]}\n`,
      'a.env': 'OK=\'${A}\'\nB=${A}\nC="${A"\nD=x${\n',
    });
    const message = 'has a `${`, and values in environment files are not interpolated';
    expect(listProblems(directory)).toEqual([
      `a.env:2:1 B ${message}`,
      `a.env:3:1 C ${message}`,
      `a.env:4:1 D ${message}`,
    ]);
  });

  test('is refused as a token even if a variable holds it or it is escaped', async () => {
    const yaml = 'api: {auth: {tokens: [{token: "${T}"}]}}\n';
    expect(await problems(yaml, { T: '${my-var}' })).toEqual([
      'config.yaml:2:24 api.auth.tokens[0].token has a `${` that was not replaced',
    ]);
    expect(await problems('tokens: [{name: a, key: "$${X}", scopes: []}]\n')).toEqual([
      'config.yaml:2:20 tokens[0].key has a `${` that was not replaced',
    ]);
  });
});

describe('a default', () => {
  test('is used when the variable is unset or empty, as in a shell', async () => {
    expect(await textOf('<${X:-a b}>')).toBe('<a b>');
    expect(await textOf('<${X:-a b}>', { X: '' })).toBe('<a b>');
    expect(await textOf('<${X:-a b}>', { X: 'set' })).toBe('<set>');
    expect(await textOf('${X:-}${Y:-:-}$')).toBe(':-$');
    expect(await textOf('${X:-http://h:1/$p?q=1}')).toBe('http://h:1/$p?q=1');
  });

  test('fits where a number or a flag is expected', async () => {
    const directory = await makeConfigTree({
      'config.yaml': `${roots}service: {max_workers: "\${N:-3}", allow_symlinks: "\${S:-true}"}\n`,
    });
    const { service } = loadConfig({ given: directory, env: {} });
    expect(service).toMatchObject({ maxWorkers: 3, allowSymlinks: true });
  });

  test.each([
    ['api: {auth: {api_key: "${X:-}"}}\n'],
    ['api: {auth: {tokens: [{token: "${X:- }"}]}}\n'],
    ['tokens: [{name: a, key: "${X:-}", scopes: []}]\n'],
    ['plugins: {e: {config: {api_token: "${X:-}"}}}\n'],
  ])('that is empty is refused for a secret: %s', async (yaml) => {
    for (const env of [{}, { X: '' }]) {
      expect((await problems(yaml, env))[0]).toContain('is a secret, and its default is empty');
    }
    const directory = await makeConfigTree({ 'config.yaml': `${roots}${yaml}` });
    loadConfig({ given: directory, env: { X: '0123456789abcdef' } });
  });

  test('for a secret is not shown', async () => {
    const yaml = `${roots}plugins: {e: {config: {token: "\${X:-hunter2hunter2}"}}}\n`;
    const { redacted } = loadConfig({
      given: await makeConfigTree({ 'config.yaml': yaml }),
      env: {},
    });
    expect(JSON.stringify(redacted)).not.toContain('hunter2');
  });
});

test('$${ is the text itself, and the syntax of pipelines and templates is left alone', async () => {
  expect(await textOf('$${my-var} $${ $$${X} $X $ {x} {{ y }} {payload.z} $')).toBe(
    '${my-var} ${ $${X} $X $ {x} {{ y }} {payload.z} $',
  );
  expect(await textOf('${A}', { A: '${B} $${C}' })).toBe('${B} $${C}');
});
