/** Operations on pipelines with recorded runs, and on invalid files. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { ownerOf, type Context } from '../../src/operation/context.ts';
import { invoke } from '../../src/operation/invoke.ts';
import { checkPipeline } from '../../src/pipeline/operations.ts';
import { testPipeline } from '../../src/pipeline/test.operations.ts';
import { makeDirectory } from '../support/directory.ts';
import { databases, makePlace } from '../support/instance.ts';
import { alwaysFails, shell } from '../support/plugin-program.ts';
import { finish, outputOf } from '../support/runs.ts';

const answers = shell(`cat > /dev/null; echo '{"status":"ok","result":"done"}'`);
const emits = shell(
  `cat > /dev/null; echo '{"status":"ok","result":"told","events":[{"type":"t","payload":{"items":[1,2]}}]}'`,
);
const pipelines: JsonObject[] = [
  {
    name: 'flow',
    steps: [
      { id: 'get', uses: 'source' },
      { id: 'all', foreach: 'payload.items', steps: [{ id: 'use', uses: 'worker' }] },
      { id: 'calm', wait: '1ms' },
    ],
  },
  {
    name: 'broken',
    steps: [
      { id: 'try', uses: 'breaker', retry: { max_attempts: 1 }, on_error: 'continue' },
      { id: 'never', wait: { signal: 'nobody.sends' }, timeout: '1ms', on_error: 'continue' },
      { id: 'ask', approve: 'Go on?', timeout: '1ms' },
    ],
  },
];

describe.each(databases)('a test on %s', (database) => {
  test('uses the recorded results of a run, unless other answers are given', async () => {
    const place = await makePlace({
      database,
      plugins: { source: { program: emits }, worker: { program: answers } },
      pipelines: pipelines.slice(0, 1),
    });
    const instance = await place.start();
    const run = await finish(instance, 'flow', { from: 'test' });
    expect(run.status).toBe('succeeded');

    const context: Context = {
      engine: instance.engine,
      principal: ownerOf('cli:test'),
      submittedBy: 'cli',
    };
    const play = (input: object) =>
      invoke(testPipeline, context, { pipeline: 'flow', run: run.id, ...input });
    const played = await play({});
    expect(played).toMatchObject({ status: 'succeeded', result: outputOf(run), next: [] });
    const [first] = played['steps'] as [object];
    expect(first).toMatchObject({ step: 'get', input: { from: 'test' } });

    const other = await play({
      responses: { get: { events: [{ payload: { items: [1, 2, 3] } }] } },
    });
    expect(other).toMatchObject({ status: 'open', next: [{ step: 'use', branch: '0.2' }] });
  });

  test('fails where and as a run failed', async () => {
    const plugins = {
      source: { program: emits },
      worker: { program: answers },
      breaker: { program: alwaysFails },
    };
    const place = await makePlace({ database, plugins, pipelines });
    const { engine } = await place.start();
    const run = await finish({ engine }, 'broken');
    expect(run).toMatchObject({ status: 'halted', haltReason: 'timeout' });
    const context: Context = { engine, principal: ownerOf('cli:test'), submittedBy: 'cli' };
    const input = { pipeline: 'broken', run: run.id };
    expect(await invoke(testPipeline, context, input)).toMatchObject({
      status: 'halted',
      steps: [
        { step: 'try', output: { error: { reason: 'attempt_failed' } } },
        { step: 'never', output: { never: null } },
        { step: 'ask', status: 'failed' },
      ],
      halts: [{ step: 'ask', reason: 'timeout', message: run.haltMessage }],
    });
  });
});

test('a check of the files reports each fault with its location', async () => {
  const directory = await makeDirectory();
  const file = join(directory, 'config.yaml');
  const check = async (lines: readonly string[], name?: string) => {
    await writeFile(file, ['plugin_roots: [.]', 'pipelines:', ...lines, ''].join('\n'));
    const configFiles = { given: file, shippedPlugins: directory };
    const engine = {} as Context['engine'];
    const context = { engine, principal: ownerOf('x'), submittedBy: 'cli', configFiles } as const;
    return invoke(checkPipeline, context, name === undefined ? {} : { pipeline: name });
  };
  const wait = '  - { name: good, steps: [{ wait: 1s }] }';
  expect(await check([wait])).toMatchObject({ valid: true, findings: [] });
  expect(await check([wait, '  - { name: bad, steps: [{ uses: nobody }] }'])).toMatchObject({
    valid: false,
    errors: 1,
    findings: [{ category: 'pipelines', key: 'pipelines[1].steps[0].uses', place: `${file}:4:28` }],
  });
  expect(await check(['  - { name: bad, steps: [] }'])).toMatchObject({ valid: false, errors: 1 });
  const several = [
    wait,
    '  - { name: bad, steps: [{ uses: nobody }] }',
    '  - { name: worse, steps: [{ wait: 1s, if: "false" }, { steps: [{ call: bad }] }] }',
  ];
  expect(await check(several)).toMatchObject({ errors: 2 });
  expect(await check(several, 'good')).toMatchObject({ valid: true, findings: [] });
  expect(await check(several, 'bad')).toMatchObject({ errors: 1 });
  expect(await check(several, 'worse')).toMatchObject({ errors: 2 });
  await expect(check(several, 'goood')).rejects.toMatchObject({
    code: 'PIPELINE_NOT_FOUND',
    hint: 'Did you mean good?',
  });
});
