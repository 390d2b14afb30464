/** Suggested commands refer to the installation of the original command. */
import { expect, test } from 'vitest';
import { DuctileError } from '../../src/base/errors.ts';
import { repeatTarget, repeatTargetInError } from '../../src/cli/repeat-target.ts';
import { run } from '../support/fake-cli.ts';

const output = {
  findings: [
    {
      fix: 'Compare with `ductile config diff`, then reload.',
      message: 'a text of others names `ductile job list`',
      commands: [
        'ductile config set a=1 --apply && ductile system reload',
        'chmod +x /p/run',
        'ductile doctor --config /old',
      ],
    },
  ],
};

test.each([
  [['doctor', '--config', '/srv/a b'], "--config '/srv/a b'"],
  [['doctor', '--config=./etc', '--json'], '--config ./etc'],
])('suggested commands after %j have %s', (argv, words) => {
  expect(repeatTarget(output, argv).findings).toEqual([
    {
      fix: `Compare with \`ductile config diff ${words}\`, then reload.`,
      message: 'a text of others names `ductile job list`',
      commands: [
        `ductile config set a=1 --apply ${words} && ductile system reload ${words}`,
        'chmod +x /p/run',
        'ductile doctor --config /old',
      ],
    },
  ]);
});

test('commands about files have no --url, which they would refuse', () => {
  const [finding] = repeatTarget(output, ['doctor', '--url', 'http://127.0.0.1:1']).findings;
  expect(finding?.commands[0]).toBe(
    'ductile config set a=1 --apply && ductile system reload --url http://127.0.0.1:1',
  );
});

test('suggested commands without either are unchanged', () => {
  expect(repeatTarget(output, ['doctor'])).toBe(output);
});

test('the hint of an error is changed, too', () => {
  const error = new DuctileError('INPUT_INVALID', 'no', { hint: 'Run `ductile config lock`.' });
  const { hint, code } = repeatTargetInError(error, ['x', '--config', '/c']);
  expect([hint, code]).toEqual(['Run `ductile config lock --config /c`.', 'INPUT_INVALID']);
});

test('the command line does so in what it prints', async () => {
  const answer = {
    id: 'x',
    kind: 'job',
    state: 'queued',
    verdict: 'It waits.',
    chain: [],
    commands: ['ductile job cancel x'],
  };
  const { out } = await run(['why', 'x', '--config', '/c'], { answer });
  expect(out).toContain('ductile job cancel x --config /c');
  const json = await run(['why', 'x', '--config', '/c', '--json'], { answer });
  expect(json.out).toContain('"ductile job cancel x --config /c"');
});

test('the sentences of a view have it, too', async () => {
  const answer = { run_id: 'r1', pipeline: 'p', status: 'halted', revived_as: null };
  const { out } = await run(['run', 'show', 'abcd', '--config', '/c'], { answer });
  expect(out).toContain('`ductile run revive r1 --config /c` continues');
});
