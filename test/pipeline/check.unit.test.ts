import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { checkPipelines, type CheckedPipelines } from '../../src/pipeline/load.service.ts';
import { diagnose } from '../../src/insight/diagnose.service.ts';
import { readConfig } from '../../src/config/load.ts';
import { matchPipelines } from '../../src/pipeline/language/pipeline.ts';
import { loadCatalog } from '../../src/plugin/catalog.ts';
import { makeDirectory } from '../support/directory.ts';
import { writeConfig, writePlugin } from '../support/plugin-tree.ts';

let base: string;

const mailer = `commands:
  handle:
    input_schema:
      type: object
      required: [to, text]
      additionalProperties: false
      properties: {to: {type: string}, text: {type: string}, copies: {type: integer}, how: {enum: [now, later]}}
    values: {emit: [{event: mail.sent, values: [payload.id, payload.to]}]}
  poll: {}`;

beforeAll(async () => {
  base = await makeDirectory();
  const root = join(base, 'plugins');
  await writePlugin(join(root, 'echo'), { name: 'echo', commands: 'commands: [handle, run]' });
  await writePlugin(join(root, 'mailer'), { name: 'mailer', commands: mailer });
  await writePlugin(join(root, 'a.b'), { name: 'a.b', commands: 'commands: [handle]' });
});

async function check(pipelines: string): Promise<CheckedPipelines> {
  const config = await writeConfig(
    base,
    `plugin_roots: [plugins]\nplugins: {echo: {retry: {max_attempts: 7}}, off: {enabled: false}}\n` +
      `pipelines:\n${pipelines}`,
  );
  return checkPipelines(config.pipelines, loadCatalog(config));
}

async function told(pipelines: string): Promise<string[]> {
  const { problems } = await check(pipelines);
  return problems.map(
    ({ place, key, message }) => `${place.slice(place.indexOf('.yaml:') + 6)} ${key} ${message}`,
  );
}

describe('against the plugins', () => {
  test('uses means a plugin, or a command of one; a plugin of exactly that name wins', async () => {
    const { pipelines, problems } = await check(
      '  - {name: x, on_halt: echo.run, steps: ' +
        '[{uses: echo}, {uses: echo.run, retry: {max_attempts: 2}}, {uses: a.b}]}\n',
    );
    expect(problems).toEqual([]);
    expect(pipelines[0]?.graph).toMatchObject({
      first: 'step_1',
      onHalt: { plugin: 'echo', command: 'run' },
      nodes: {
        step_1: { plugin: 'echo', command: 'handle', maxAttempts: 7 },
        step_2: { plugin: 'echo', command: 'run', maxAttempts: 2 },
        step_3: { plugin: 'a.b', command: 'handle' },
      },
    });
  });

  test('an unknown plugin or command is reported with its line', async () => {
    expect(
      await told(`
  - {name: x, on: e, from_plugin: nobody, steps: [{uses: ehco}, {uses: echo.fly}, {call: y}]}
  - {name: z, steps: [{call: z}]}
`),
    ).toEqual([
      '5:84 pipelines[0].steps[2].call names y, which is not a pipeline',
      '5:52 pipelines[0].steps[0].uses names ehco, which is not a plugin',
      '5:66 pipelines[0].steps[1].uses names the command fly, which the plugin echo does not have',
      '5:22 pipelines[0].from_plugin names nobody, which is not a plugin',
      '6:24 pipelines[1].steps[0].call forms a loop: z → z',
    ]);
  });

  test('a pipeline with a disabled plugin is not active, and neither is one that calls it', async () => {
    const { pipelines, problems, warnings } = await check(`
  - {name: x, steps: [{uses: off}]}
  - {name: y, steps: [{call: x}]}
  - {name: z, steps: [{uses: echo}]}
`);
    expect(problems).toEqual([]);
    expect(pipelines.map(({ name }) => name)).toEqual(['z']);
    expect(warnings.map(({ key, message }) => `${key} ${message}`)).toEqual([
      'pipelines[0].name uses off, which is disabled; the pipeline is inactive',
      'pipelines[1].name uses off, which is disabled; the pipeline is inactive',
    ]);
  });

  test('text that looks like a value is reported', async () => {
    const { pipelines, problems, warnings } = await check(`
  - name: x
    concurrency: {key: "{{payload.user}}", limit: 1}
    steps:
      - {uses: echo, with: {a: {b: ["{payload.a} $\${{ payload.b }}"]}, c: "{{a}} {{{payload.c}}}"}}
      - {uses: echo, dependency: payload.d, with: {d: [payload.d, payload.e is text, payload]}}
      - {approve: "{{context.who}}?"}
`);
    expect(problems).toEqual([]);
    expect(pipelines).toHaveLength(1);
    expect(
      warnings.map(({ place, key, message }) => `${place.split(':')[1]} ${key} ${message}`),
    ).toEqual([
      '8 pipelines[0].steps[0].with.a has {{ payload.b }}, which is plain text, not a value',
      '9 pipelines[0].steps[1].with.d has payload.d, which is plain text, not a value',
      '10 pipelines[0].steps[2].approve has {{context.who}}, which is plain text, not a value',
      '6 pipelines[0].concurrency.key has {{payload.user}}, which is plain text, not a value',
    ]);
    expect(warnings.map(({ hint }) => hint).slice(0, 2)).toEqual([
      'To use the value, write { payload.b }.',
      'To use the value, write {payload.d}.',
    ]);
  });

  test('config check reports the same', async () => {
    await check('  - {name: x, steps: [{uses: ehco}]}\n');
    const reading = readConfig({ given: join(base, 'config.yaml'), env: {} });
    expect(diagnose(reading, 0)).toContainEqual(
      expect.objectContaining({
        severity: 'error',
        category: 'pipelines',
        message: 'names ehco, which is not a plugin',
        hint: 'Did you mean echo?',
      }),
    );
  });
});

describe('payloads', () => {
  test("values that the command doesn't accept are reported", async () => {
    expect(
      await told(`
  - name: x
    steps:
      - uses: mailer
        with: {to: 5, text: "Hello {payload.name}", copies: "{payload.n}", cc: x, how: soon}
      - uses: mailer
        with: {text: [], copies: 1.5, to: "{payload.to}"}
`),
    ).toEqual([
      '8:16 pipelines[0].steps[0].with.to is not a value that mailer accepts there: "string"',
      '8:76 pipelines[0].steps[0].with.cc is not a field that mailer accepts',
      '8:83 pipelines[0].steps[0].with.how is not a value that mailer accepts there: ["now","later"]',
      '10:16 pipelines[0].steps[1].with.text is not a value that mailer accepts there: "string"',
      '10:26 pipelines[0].steps[1].with.copies is not a value that mailer accepts there: "integer"',
    ]);
  });

  test("a field that the events of the step before don't have is reported", async () => {
    expect(
      await told(`
  - name: x
    steps:
      - uses: mailer
      - uses: mailer
        with: {copies: "{payload.count}"}
      - {id: each, foreach: payload.all, steps: [{uses: mailer, with: {text: "{payload.item} {payload.index}"}}]}
      - {uses: mailer, with: {text: "{payload.each}"}, on_error: continue}
      - {uses: mailer, with: {text: "{payload.error}"}}
`),
    ).toEqual([
      '9:16 pipelines[0].steps[1].with.copies uses payload.count, which no earlier step provides',
      '8:9 pipelines[0].steps[1].uses names mailer, which needs payload.text; no earlier step provides it',
      '10:20 pipelines[0].steps[2].foreach uses payload.all, which no earlier step provides',
    ]);
  });

  test('a call reports its consequences, and only when the caller is to blame', async () => {
    expect(
      await told(`
  - {name: x, steps: [{uses: mailer, if: payload.wanted}, {call: y}]}
  - {name: y, steps: [{uses: mailer}]}
  - {name: z, steps: [{uses: mailer}, {call: y}]}
`),
    ).toEqual([
      '7:40 pipelines[2].steps[1].call leads to pipelines[1].steps[0].uses, which names mailer, ' +
        'which needs payload.text; no earlier step provides it',
    ]);
  });

  test('nothing is reported if the event may have any field', async () => {
    expect(
      await told(`
  - name: x
    steps:
      - {uses: mailer}
      - {uses: mailer, if: has(payload.text)}
      - {switch: payload.x, cases: {a: [{uses: mailer, with: {copies: "{payload.n}"}}]}}
      - {uses: mailer}
      - {uses: echo, with: {x: "{payload.result}"}}
      - {uses: mailer, with: {text: "{payload.whatever}"}}
      - {steps: [{uses: echo}]}
      - {uses: mailer}
`),
    ).toEqual([]);
  });
});

test('an event starts the pipelines that match; one whose condition fails is skipped, the others start', async () => {
  const { pipelines } = await check(`
  - {name: all, on: e, steps: [{uses: echo}]}
  - {name: other, on: f, steps: [{uses: echo}]}
  - {name: from, on: e, from_plugin: mailer, steps: [{uses: echo}]}
  - {name: big, on: e, if: {path: payload.size, op: gt, value: 3}, steps: [{uses: echo}]}
  - {name: carried, on: e, if: 'context.user == "u1"', steps: [{uses: echo}]}
  - {name: named, steps: [{uses: echo}]}
`);
  const match = (source: string, size: string | number) => {
    const trigger = { source, type: 'e', payload: { size }, context: { user: 'u1' } };
    const { started, rejected, skipped } = matchPipelines(pipelines, trigger);
    return [
      started.map(({ name }) => name),
      rejected.map(({ name }) => name),
      skipped.map(({ pipeline, message }) => `${pipeline.name}: ${message}`),
    ];
  };
  expect(match('echo', 4)).toEqual([['all', 'big', 'carried'], [], []]);
  expect(match('mailer', 3)).toEqual([['all', 'from', 'carried'], ['big'], []]);
  expect(match('echo', 'x')).toEqual([
    ['all', 'carried'],
    [],
    ['big: payload.size is text, but gt compares a number only'],
  ]);
});
