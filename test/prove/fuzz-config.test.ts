/** Input of operators: configurations, variables, files of variables, addresses of keys. */
import assert from 'node:assert/strict';
import { DuctileError } from '../../src/base/errors.ts';
import { describeUnsafeJson } from '../../src/base/json.ts';
import { limits } from '../../src/base/limits.ts';
import { parseAddress, valueAt } from '../../src/config/address.ts';
import { keyText, parseDocument } from '../../src/config/document.ts';
import { parseEnvironment } from '../../src/config/sources.ts';
import { interpolate } from '../../src/config/interpolate.ts';
import { describeIssues } from '../../src/config/issues.ts';
import { findKeyRefusal } from '../../src/config/refused-keys.ts';
import { configSchema } from '../../src/config/schema.ts';
import type { Target } from './support/fuzz.ts';
import { fuzzing } from './support/fuzzing.ts';

const env = { NAME: 'value', EMPTY: '', TRICK: '"}\n${NAME}: {' };

const yaml: Target = {
  name: 'yaml',
  examples: [
    'a: 1\nb: [x, "y", null]\nc: {d: &d {e: 1.5}, f: *d}\n',
    'plugins:\n  echo:\n    enabled: true\n    schedules:\n      - every: 5m\n',
    '# note\na: |\n  text\n  more\nb: >-\n  folded\n? k\n: v\n',
    'a: !!binary aGk=\n---\nb: 2\n...\n',
    '<<: &base {x: 1}\ny: ${NAME} $${NAME} ${MISSING}\n',
  ],
  words: [
    '\n',
    '  ',
    '\t',
    ': ',
    '- ',
    '? ',
    '&a ',
    '*a',
    '!!str ',
    '!<x> ',
    '|2\n',
    '>+\n',
    '---\n',

    '...\n',
    '%YAML 1.1\n',
    '%TAG ! x\n',
    '[',
    ']',
    '{',
    '}',
    ', ',
    '"',
    "'",
    '#',
    '<<: ',
    '0x1F',

    '.inf',
    '.nan',
    '1_000',
    '2026-01-01',
    '~',
    'yes',
    '__proto__: 1',
    '"\\0"',
    '"\\uD800"',
    '\r',
    '${NAME}',
    '$${',
    '${TRICK}',
    '=',
    '`',
    '@',
  ],
  check(input) {
    const { value, problems, placeOf } = parseDocument(input, 'f');
    assert.match(placeOf(['a', 'b', 0]), /^f:\d+:\d+$/);
    for (const { place, message } of problems) {
      assert.match(place, /^f:\d+:\d+$/);
      assert.notEqual(message, '');
    }
    if (problems.length > 0) {
      assert.equal(value, undefined);
      return problems[0]?.message ?? '';
    }
    assert.equal(describeUnsafeJson(value, limits.jsonDepthMax), undefined);
    const filled = interpolate(value, env);
    // The value of a variable never becomes a key.
    assert.deepEqual(keysOf(filled.value), keysOf(value));
    return `ok ${typeof value} ${filled.faults.length > 0}`;
  },
};

function keysOf(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => [key, ...keysOf(inner)]);
}

const config: Target = {
  name: 'config',
  share: 0.3,
  examples: [
    `service:
  name: d
  max_workers: 4
  tick_interval: 10s
plugin_roots: [plugins]
plugins:
  echo:
    enabled: true
    timeouts: {poll: 5s}
    retry: {max_attempts: 3, backoff_base: 1s}
    schedules:
      - {every: 5m, jitter: 10s}
`,
    `plugin_roots: [p]
state: {path: ./d.db}
api:
  enabled: true
  listen: 127.0.0.1:8081
  auth:
    tokens:
      - {name: a, token: "\${NAME}", scopes: [read]}
`,
    `plugin_roots: [p]
routes:
  - {from: a, event_type: x, to: b}
pipelines:
  - name: p
    on: a.b
    steps:
      - {id: s, uses: echo.poll, with: {a: "{payload.b}"}}
      - foreach: payload.items
        steps: [{uses: echo.handle}]
`,
    `plugin_roots: [p]
webhooks:
  endpoints:
    - {path: /hooks/a, plugin: echo, secret: "\${NAME}", signature_header: X-Sig}
`,
  ],
  words: [
    '\n',
    '  ',
    ': ',
    '- ',
    '{}',
    '[]',
    'null',
    '"',
    '-1',
    '0',
    '1e9',
    '99999d',
    'true',
    '${NAME}',
    'service:',
    'plugins:',
    'routes:',
    'webhooks:',
    'pipelines:',
    'state:',
    'api:',
    'include:',

    'if:',
    'switch:',
    'call:',
    'split:',
    'wait:',
    'uses:',
    'each:',
    'steps:',
    '0.0.0.0:0',
    '::1',

    '(a+)+$',
    '../..',
    '__proto__',
    'constructor',
    'token',
    'secret',
    'scopes: ["*"]',
    'name: .',
  ],
  check(input) {
    const document = parseDocument(input, 'f');
    if (document.value === undefined) return 'no document';
    const { value } = interpolate(document.value, env);
    const parsed = configSchema.safeParse(value);
    if (parsed.success) return 'ok';
    const issues = describeIssues(parsed.error.issues, configSchema, document, {
      refusalOf: findKeyRefusal,
    });
    assert.ok(issues.length > 0, 'it is refused without a word');
    for (const { place, message } of issues) {
      assert.match(place, /^f:\d+:\d+$/);
      assert.ok(message.length < 2000 && message !== '');
      // Faults appear in logs, so the value of a variable must not be in them.
      assert.ok(!message.includes(env.TRICK));
    }
    return issues[0]?.message ?? '';
  },
};

const variables: Target = {
  name: 'env-file',
  share: 4,
  examples: [
    'A=1\nexport B="x y" # note\nC=\'z\'\n',
    '# only\n\n',
    'D=a#b #c\r\nE=\n',
    'F="open\n',
  ],
  words: ['=', '"', "'", '#', ' ', '\n', '\r\n', 'export ', 'A', '\\', '\t', '$A', '${', '\0'],
  check(input) {
    const { variables: found, problems } = parseEnvironment(input, 'f');
    for (const [name, value] of found) {
      assert.match(name, /^[A-Za-z_][A-Za-z0-9_]*$/);
      assert.ok(!value.includes('\n'));
    }
    // The lines hold secrets, so none of them is shown.
    for (const { message } of problems) {
      assert.match(message, /^(the line is|a quote is) not|^has a `\$\{`, and values/);
    }
    return `${Math.min(3, found.size)} ${problems.map(({ message }) => message).join(' ')}`;
  },
};

const tree = {
  service: { max_workers: 4 },
  plugins: { echo: { schedules: [{ every: '5m' }] }, 'a.b': { enabled: true } },
  api: { auth: { tokens: [{ name: 'ci', scopes: [] }] } },
};

const address: Target = {
  name: 'key-address',
  share: 4,
  examples: [
    'service.max_workers',
    'plugins.echo.schedules.0.every',
    'plugins["a.b"].enabled',
    'plugin:echo.enabled',
    'plugin:a.b.enabled',
    'plugin:*',
    'token:ci.scopes',
    'x',
  ],
  words: [
    '.',
    '[',
    ']',
    '"',
    '\\',
    ':',
    '*',
    '0',
    'plugin:',
    'token:',
    '__proto__',
    'constructor',
    ' ',
  ],
  check(input) {
    try {
      const path = parseAddress(input, tree);
      assert.ok(path.length > 0);
      const found = valueAt(tree, path);
      assert.notEqual(found, Object.prototype);
      assert.notEqual(typeof found, 'function');
      return `ok ${typeof found} ${keyText(path) === input}`;
    } catch (thrown) {
      if (!(thrown instanceof DuctileError)) throw thrown;
      assert.ok(thrown.kind.status < 500);
      return thrown.message;
    }
  },
};

fuzzing('fuzz-config', { cases: 20_000 }, [yaml, config, variables, address]);
