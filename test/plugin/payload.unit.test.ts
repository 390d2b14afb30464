import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import type { Plugin } from '../../src/plugin/catalog.ts';
import { checkPayload, checkSchemas } from '../../src/plugin/payload.ts';

function pluginWith(inputSchema: JsonObject | undefined): Plugin {
  const manifest = { commands: { handle: { inputSchema } } };
  return { name: 'mail', directory: '/plugins/mail', manifest } as unknown as Plugin;
}

function check(schema: JsonObject | undefined, payload: JsonObject): Promise<void> {
  return checkPayload(pluginWith(schema), 'handle', payload);
}

const letter: JsonObject = {
  type: 'object',
  required: ['to'],
  additionalProperties: false,
  properties: {
    to: { type: 'array', items: { type: 'string', minLength: 3 } },
    'a/b~c': { type: 'integer' },
    tone: { enum: ['kind', 'short'] },
  },
};

describe('a payload', () => {
  test('passes when it fits, or when there is nothing to fit', async () => {
    await check(letter, { to: ['ann'], 'a/b~c': 1, tone: 'kind' });
    await check(undefined, { anything: [null] });
    await check({}, { anything: [null] });
  });

  test.each([
    [{}, 'payload.to', 'is missing'],
    [{ to: ['ann', 'x'] }, 'payload.to[1]', 'fewer than 3'],
    [{ to: [], 'a/b~c': 1.5 }, 'payload.a/b~c', 'integer'],
    [{ to: [], cc: [] }, 'payload.cc', 'not a known field'],
    [{ to: [], tone: 'loud' }, 'payload.tone', '"kind","short"'],
    [{ to: 'ann' }, 'payload.to', 'array'],
  ])('that does not is refused with its place: %o', async (payload, place, message) => {
    await expect(check(letter, payload as JsonObject)).rejects.toMatchObject({
      code: 'INPUT_INVALID',
      place,
      hint: expect.stringContaining('`ductile plugin show mail --verbose`'),
      message: expect.stringContaining(message),
    });
  });

  test('is checked in bounded time, whatever the pattern', async () => {
    const schema = { type: 'object', properties: { a: { type: 'string', pattern: '^(a+)+$' } } };
    await check(schema, { a: 'aaa' });
    const began = performance.now();
    await expect(check(schema, { a: `${'a'.repeat(50)}b` })).rejects.toMatchObject({
      code: 'INPUT_INVALID',
      place: 'payload',
    });
    expect(performance.now() - began).toBeLessThan(5000);
  });

  test('is checked in bounded time, however a schema refers to itself', async () => {
    const same = { properties: { x: { $ref: '#/$defs/a' } } };
    const schema: JsonObject = {
      $ref: '#/$defs/a',
      $defs: { a: { anyOf: [{ ...same, required: ['y'] }, { ...same, required: ['z'] }, same] } },
    };
    let payload: JsonObject = { x: 1 };
    for (let depth = 0; depth < 40; depth += 1) payload = { x: payload };
    const began = performance.now();
    await check(schema, payload).catch(() => undefined);
    expect(performance.now() - began).toBeLessThan(5000);
  });
});

test.each([
  ['is no schema', { type: 'objekt' }],
  ['refers to another place', { $ref: 'https://example.org/schema.json' }],
  ['would take its time', { $async: true, type: 'object' }],
  ['is too large', { description: 'x'.repeat(100_000) }],
])('a schema that %s is the fault of the plugin', async (_, schema) => {
  await expect(check(schema, {})).rejects.toMatchObject({
    code: 'PLUGIN_INVALID',
    message: expect.stringContaining('input_schema of mail handle'),
  });
});

test('schemas that cannot be used are found without a payload', async () => {
  const plugins = [pluginWith({ type: 'objekt' }), pluginWith(letter), pluginWith(undefined)];
  expect(await checkSchemas(plugins)).toEqual([
    {
      place: '/plugins/mail/manifest.yaml',
      key: 'commands.handle.input_schema',
      message: expect.stringContaining('cannot be used'),
      hint: expect.stringContaining('mail handle'),
    },
  ]);
});

test('a schema of an older draft is understood', async () => {
  const schema = { $schema: 'http://json-schema.org/draft-07/schema#', type: 'object' };
  await check(schema, {});
});
