/** The SDKs of plugins: the same promises in both languages. */
import { execFile, spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import {
  findUnseen,
  isObject,
  makeEvent,
  parseExactly,
  parseRequest,
} from '../../sdk/typescript/ductile-plugin.ts';
import { makeDirectory } from '../support/directory.ts';
import { encodeParts } from '../support/plugin-process.ts';

const root = resolve(import.meta.dirname, '../..');

test('Python: its own tests', async () => {
  const env = {
    ...process.env,
    PYTHONPATH: join(root, 'sdk/python'),
    PYTHONDONTWRITEBYTECODE: '1',
  };
  const script = join(import.meta.dirname, 'test_ductile_plugin.py');
  const { stderr } = await promisify(execFile)('python3', ['-W', 'error', script], { env });
  expect(stderr).toMatch(/Ran 11 tests[^]*OK/);
});

test('shell: a failure may say when to try again', async () => {
  const script = `lib=$1; . "$lib/plugin.sh"; answer_error '"too many"' true 45`;
  const lib = join(root, 'sdk/sh');
  const { stdout } = await promisify(execFile)('/bin/sh', ['-c', script, 'sh', lib]);
  expect(JSON.parse(stdout)).toEqual({
    status: 'error',
    error: 'too many',
    retry: true,
    retry_after_seconds: 45,
  });
});

describe('TypeScript', () => {
  test("printed text doesn't get into the response, and logs are kept when the plugin fails", async () => {
    const directory = await makeDirectory();
    const sdk = join(root, 'sdk/typescript/ductile-plugin.ts');
    const program = join(directory, 'run.ts');
    await writeFile(
      program,
      `import { Failure, runPlugin } from ${JSON.stringify(sdk)};
await runPlugin({
  poll({ log }) {
    console.log('hello');
    log.warn('close to the limit');
    throw new Failure('no room', false);
  },
});`,
    );
    const child = spawn(process.execPath, [program]);
    child.stdin.end(encodeParts({ command: 'poll' }));
    const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
    expect(JSON.parse(out)).toEqual({
      status: 'error',
      error: 'no room',
      retry: false,
      logs: [{ level: 'warn', message: 'close to the limit' }],
    });
    expect(err).toContain('hello');
  });

  test('a failure may say when to try again', async () => {
    const directory = await makeDirectory();
    const sdk = join(root, 'sdk/typescript/ductile-plugin.ts');
    const program = join(directory, 'run.ts');
    await writeFile(
      program,
      `import { Failure, runPlugin } from ${JSON.stringify(sdk)};
await runPlugin({ poll() { throw new Failure('too many', true, 45); } });`,
    );
    const child = spawn(process.execPath, [program]);
    child.stdin.end(encodeParts({ command: 'poll' }));
    expect(JSON.parse(await text(child.stdout))).toEqual({
      status: 'error',
      error: 'too many',
      retry: true,
      retry_after_seconds: 45,
    });
  });

  test.each([
    '12345678901234567890',
    '-9007199254740993',
    '1e400',
    '1e-400',
    '0.1234567890123456789',
    '999999999999999.99',
  ])('the number %s is passed on as it came', (number) => {
    const raw = `{"protocol":2,"command":"poll","payload":{"n":${number}},"state":{"l":[${number}]}}`;
    const { payload, state } = parseRequest(raw);
    expect(JSON.stringify({ ...payload.values, state })).toBe(
      `{"n":${number},"state":{"l":[${number}]}}`,
    );
    expect(isObject(payload.values['n'])).toBe(false);
  });

  test.each(['1', '1.50', '0.1', '0.10000000000000001', '1e3', '9007199254740992', '1.0e300'])(
    'the number %s is an ordinary one',
    (number) => {
      expect(parseExactly(`{"n":${number},"text":"12345678901234567890"}`)).toEqual({
        n: Number(number),
        text: '12345678901234567890',
      });
    },
  );

  test('keys of effects are the same for every attempt, and as in Python', () => {
    const [first, second] = [1, 2].map((attempt) =>
      parseRequest(encodeParts({ command: 'poll', attempt, idempotency_key: 'k' })),
    );
    expect(first?.keyFor('mail')).toBe(second?.keyFor('mail'));
    expect(first?.keyFor('bill')).not.toBe(first?.keyFor('mail'));
    expect(first?.keyFor('mail')).toBe(
      'a2dd33efdb7e0330d9d84143abbab5400c0b3625050d3f9c49c473d6c5872648',
    );
  });

  test('only what is new comes back, and the latest ids are kept', () => {
    const id = (item: string): string => item;
    expect(findUnseen(['a', 'b'], id, ['a'])).toEqual({ fresh: ['b'], seen: ['a', 'b'] });
    expect(findUnseen(['d'], id, ['a', 'b', 'c'], 2).seen).toEqual(['c', 'd']);
    expect(findUnseen(['a', 'b', 'c'], id, null, 1).seen).toEqual(['a', 'b', 'c']);
    expect(makeEvent('a.b', {}, 'k')).toEqual({ type: 'a.b', payload: {}, dedupe_key: 'k' });
  });
});
