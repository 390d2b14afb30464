import { describe, expect, test } from 'vitest';
import { parseDocument } from '../../src/config/document.ts';
import { parseManifest, type Manifest } from '../../src/plugin/manifest.ts';
import { manifestText } from '../support/plugin-tree.ts';

function accept(text: string): Manifest {
  const { manifest, problems } = parseManifest(parseDocument(text, 'manifest.yaml'));
  expect(problems).toEqual([]);
  if (manifest === undefined) throw new Error('no manifest and no problem');
  return manifest;
}

function refuse(text: string): string[] {
  const { manifest, problems } = parseManifest(parseDocument(text, 'manifest.yaml'));
  expect(manifest).toBeUndefined();
  return problems.map(({ place, key, message }) => `${place.slice(14)} ${key} ${message}`);
}

describe('a valid manifest', () => {
  test('the least manifest is complete with defaults', () => {
    expect(accept(manifestText())).toMatchObject({
      name: 'echo',
      version: '1.0.0',
      protocol: 2,
      entrypoint: 'run.sh',
      description: undefined,
      concurrencySafe: true,
      prewarm: false,
      factOutputs: [],
      configKeys: { required: [], optional: [] },
      stopwatch: { maxSubs: 32 },
      commands: { poll: { name: 'poll', type: 'read' }, handle: { type: 'write' } },
    });
  });

  test('every field of a full one is kept', () => {
    const manifest = accept(`manifest_spec: ductile.plugin
manifest_version: 1
name: withings
version: 2.5
protocol: 2
entrypoint: bin/run.py
description: Fetch health data
concurrency_safe: false
prewarm: true
commands:
  - name: poll
    type: read
    description: Fetch
    idempotent: true
    retry_safe: false
    input_schema: {type: object, properties: {a: {type: string}}}
    values:
      consume: [payload.a.b, payload.*]
      emit: [{event: x.done, values: [payload.y]}]
  - name: sync
fact_outputs:
  - {when: {command: poll}, from: state_updates, fact_type: w.snapshot, compatibility_view: mirror_object}
  - {when: {command: sync}, fact_type: w.other}
  - {when: {command: sync}, fact_type: w.third, compatibility_view: ""}
config_keys: {required: [id], optional: [token]}
stopwatch: {max_subs: 256}
`);
    expect(manifest).toMatchObject({
      version: '2.5',
      entrypoint: 'bin/run.py',
      concurrencySafe: false,
      prewarm: true,
      factOutputs: [
        { command: 'poll', factType: 'w.snapshot', compatibilityView: 'mirror_object' },
        { command: 'sync', factType: 'w.other', compatibilityView: 'mirror_object' },
        { command: 'sync', factType: 'w.third', compatibilityView: '' },
      ],
      configKeys: { required: ['id'], optional: ['token'] },
      stopwatch: { maxSubs: 256 },
    });
    expect(manifest.commands['poll']).toEqual({
      name: 'poll',
      type: 'read',
      description: 'Fetch',
      idempotent: true,
      retrySafe: false,
      inputSchema: { type: 'object', properties: { a: { type: 'string' } } },
      outputSchema: undefined,
      values: {
        consume: ['payload.a.b', 'payload.*'],
        emit: [{ event: 'x.done', values: ['payload.y'] }],
      },
    });
    expect(manifest.commands['sync']?.type).toBe('write');
  });

  test.each([
    'commands: {poll: {type: read}, handle: {}}',
    'commands: {poll: {type: read}, handle: }',
    'commands: [{name: poll, type: read}, {name: handle}]',
    'commands: [{name: poll, type: read}, handle]',
  ])('%s', (commands) => {
    const types = Object.values(accept(manifestText({ commands })).commands).map(
      ({ name, type }) => `${name} ${type}`,
    );
    expect(types).toEqual(['poll read', 'handle write']);
  });

  test('a compact schema becomes an object schema; other schemas stay', () => {
    const commands = (schema: string): string => `commands: {poll: {input_schema: ${schema}}}`;
    const schemaOf = (schema: string): unknown =>
      accept(manifestText({ commands: commands(schema) })).commands['poll']?.inputSchema;
    expect(schemaOf('{url: string, n: integer, tags: {type: array}, when: ISO date}')).toEqual({
      type: 'object',
      properties: {
        url: { type: 'string' },
        n: { type: 'integer' },
        tags: { type: 'array' },
        when: { description: 'ISO date' },
      },
    });
    expect(schemaOf('{}')).toEqual({ type: 'object', properties: {} });
    expect(schemaOf('{anyOf: [{type: string}]}')).toEqual({ anyOf: [{ type: 'string' }] });
  });

  test('a name that every object has is not a command', () => {
    expect(accept(manifestText()).commands['constructor']).toBeUndefined();
  });
});

describe('an invalid manifest is refused with line and key', () => {
  test('all problems are reported at once', () => {
    expect(
      refuse(`manifest_spec: ductile.plugins
manifest_version: 2
name: no good
protocol: 1
entrypoint: ../run.py
commands:
  poll: {type: reed, inputs: {}}
fact_outputs:
  - {when: {}, from: logs, fact_type: x, compatibility_view: mirror}
stopwatch: {max_subs: 257}
secrets: []
`),
    ).toEqual([
      '1:1 manifest_spec must be ductile.plugin, not "ductile.plugins"',
      '1:1 version is required',
      '2:1 manifest_version must be 1, not 2',
      '3:1 name must be letters, digits, _, - and dots, and start with a letter or digit',
      '4:1 protocol must be 2, not 1',
      '5:1 entrypoint must not contain ..: "../run.py"',
      '7:10 commands.poll.type must be read or write, not "reed"',
      '7:22 commands.poll.inputs is not a known key',
      '9:6 fact_outputs[0].when.command is required',
      '9:16 fact_outputs[0].from must be state_updates, not "logs"',
      '9:42 fact_outputs[0].compatibility_view must be "" or mirror_object, not "mirror"',
      '10:13 stopwatch.max_subs must be at most 256, not 257',
      '11:1 secrets is not a known key',
    ]);
  });

  test.each([
    ['commands: {}', 'commands must not be empty'],
    ['commands: []', 'commands must not be empty'],
    ['commands: [a, {name: a}]', 'commands[1] repeats the command a'],
    ['commands: {9x: {}}', 'commands.9x must be letters, digits, _ and -'],
    ['commands: poll', 'commands must be a map of keys, not "poll"'],
    ['commands: [{type: read}]', 'commands[0].name is required'],
    ['commands: {poll: {values: {consume: [a.b]}}}', 'must look like payload.name'],
  ])('%s', (commands, message) => {
    expect(refuse(manifestText({ commands })).join('\n')).toContain(message);
  });

  test('a fact for a command that is not declared', () => {
    const extra = 'fact_outputs: [{when: {command: pol}, fact_type: x}]';
    expect(refuse(manifestText({ extra }))).toEqual([
      '8:24 fact_outputs[0].when.command names "pol", which is not a declared command',
    ]);
  });

  test.each(['/bin/sh', 'a/../../b', '..', '"a\\\\..\\\\b"'])('entrypoint %s', (entrypoint) => {
    expect(refuse(manifestText({ entrypoint }))).toHaveLength(1);
  });

  test('two dots inside a name are only a name', () => {
    expect(accept(manifestText({ entrypoint: 'run..sh' })).entrypoint).toBe('run..sh');
  });

  test.each(['', '- a', 'a: [', '"text"'])('%j is not a manifest', (text) => {
    expect(refuse(text).length).toBeGreaterThan(0);
  });
});
