import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { makeDirectory } from '../support/directory.ts';
import { payloadOf, runError, runOk, runPlugin } from '../support/plugin-process.ts';

const show = ['printf', '%s|', '{text}', '--name={name}'];

describe('sys-exec', () => {
  test('runs a listed command and reports how it ended', async () => {
    const { result, events } = await execute({ hello: ['printf', 'out'] }, { command: 'hello' });
    expect(result).toBe('hello exited with 0');
    expect(events).toMatchObject([
      {
        type: 'sys-exec.finished',
        payload: {
          command: 'hello',
          exit_code: 0,
          signal: null,
          stdout: 'out',
          stderr: '',
          stdout_truncated: false,
          stderr_truncated: false,
        },
      },
    ]);
  });

  test.each([
    '; touch pwned',
    '$(touch pwned)',
    '`touch pwned`',
    '| sh',
    'a\nb',
    '*',
    '{name}',
    '\'"\\',
    '../../etc/passwd',
    '💥',
  ])('gives %j to the program as it is', async (text) => {
    const directory = await makeDirectory();
    const { events } = await runOk('sys-exec', {
      command: 'run',
      config: { commands: { show }, cwd: directory },
      payload: { command: 'show', args: { text, name: text } },
    });
    expect(events[0]?.payload).toMatchObject({ stdout: `${text}|--name=${text}|` });
    expect(existsSync(join(directory, 'pwned'))).toBe(false);
  });

  test('fills placeholders from an event without args', async () => {
    const { events } = await runOk('sys-exec', {
      command: 'handle',
      config: { commands: { show }, default_command: 'show' },
      event: { type: 'x', payload: { text: 'a', name: 7, other: 'ignored' } },
    });
    expect(events[0]?.payload).toMatchObject({ stdout: 'a|--name=7|' });
  });

  test.each<[string, JsonObject]>([
    ["begins with '-'", { text: '-rf', name: 'x' }],
    ['payload.args.extra has no placeholder', { text: 'a', name: 'b', extra: 'c' }],
    ['payload.args.name must be a string or a number', { text: 'a' }],
    ['payload.args.text must be a string or a number', { text: ['a'], name: 'x' }],
    ['payload.args.text must be a string or a number', { text: true, name: 'x' }],
    ['no argument can have', { text: 'a\0b', name: 'x' }],
    ['no argument can have', { text: '\ud800', name: 'x' }],
  ])('refuses arguments: %s', async (message, args) => {
    const { error, retry } = await runError('sys-exec', {
      command: 'run',
      config: { commands: { show } },
      payload: { command: 'show', args },
    });
    expect(error).toContain(message);
    expect(retry).toBe(false);
  });

  test.each(['other', '/bin/sh', '../show', '__proto__', ''])(
    'does not run %j',
    async (command) => {
      const request = { command: 'run', config: { commands: { show } }, payload: { command } };
      const { error, retry } = await runError('sys-exec', request);
      expect(error).toContain('payload.command');
      expect(retry).toBe(false);
    },
  );

  test.each<[string, JsonObject]>([
    ['config.commands.a must be a list', { commands: { a: 'echo hi' } }],
    ['config.commands.a starts a shell', { commands: { a: ['/bin/bash', '-ec', 'echo hi'] } }],
    [
      'a shell script cannot contain placeholders',
      { commands: { a: ['sh', '-c', '{x}'] }, allow_shell: true },
    ],
    ['cannot be a placeholder', { commands: { a: ['{program}'] } }],
    ['config.commands.a must be a list', { commands: { a: [] } }],
    ['config.commands.a must be a list', { commands: { a: ['echo', 3] } }],
    ['config.commands must list', { commands: {} }],
    ['config.default_command', { commands: { a: ['echo'] }, default_command: 'b' }],
    ['config.cwd', { commands: { a: ['echo'] }, cwd: '/nowhere/at/all' }],
    ['config.ok_exit_codes', { commands: { a: ['echo'] }, ok_exit_codes: [256] }],
    ['cannot run', { commands: { a: ['/nowhere/at/all'] } }],
  ])('calls it a configuration error: %s', async (message, config) => {
    const { code, error } = await runError('sys-exec', {
      command: 'run',
      config,
      payload: { command: 'a' },
    });
    expect(error).toContain(message);
    expect(code).toBe(78);
  });

  test('runs shell text when that is allowed, and lets values in only after it', async () => {
    const config = {
      allow_shell: true,
      commands: {
        text: 'echo ${UNSET:-{text}} | tr a-z A-Z',
        after: ['sh', '-c', 'echo "$1"', 'sh', '{text}'],
      },
    };
    const text = await runOk('sys-exec', { command: 'run', config, payload: { command: 'text' } });
    expect(text.events[0]?.payload).toMatchObject({ stdout: '{TEXT}\n' });
    const payload = { command: 'after', args: { text: '$(id)' } };
    const after = await runOk('sys-exec', { command: 'run', config, payload });
    expect(after.events[0]?.payload).toMatchObject({ stdout: '$(id)\n' });
  });

  test('fails, retryable, with the last words of a command that failed', async () => {
    const commands = { bad: 'echo first >&2; echo "no space left" >&2; exit 3' };
    const config = { commands, allow_shell: true };
    const request = { command: 'run', config, payload: { command: 'bad' } };
    const expected = { error: 'bad exited with 3: no space left', retry: true, code: 0 };
    expect(await runError('sys-exec', request)).toEqual(expected);
    const { stdout } = await runPlugin('sys-exec', request);
    expect(JSON.parse(stdout)).toMatchObject({ status: 'error', exit_code: 3 });
    const { events } = await runOk('sys-exec', {
      ...request,
      config: { ...config, ok_exit_codes: [3] },
    });
    expect(events[0]?.payload).toMatchObject({ exit_code: 3 });
  });

  test('reports the signal that ended a command', async () => {
    const config = { commands: { die: 'kill -9 $$' }, allow_shell: true, ok_exit_codes: 'any' };
    const { events } = await runOk('sys-exec', {
      command: 'run',
      config,
      payload: { command: 'die' },
    });
    expect(events[0]?.payload).toMatchObject({ exit_code: null, signal: 'SIGKILL' });
  });

  test('keeps the beginning of a large output and says that it cut', async () => {
    const commands = {
      big: 'head -c 20000000 /dev/zero; head -c 1000 /dev/zero | tr "\\0" "\\033" >&2',
    };
    const config = { commands, allow_shell: true, max_output_bytes: 600 };
    const request = { command: 'run', config, payload: { command: 'big' } };
    const payload = payloadOf(await runOk('sys-exec', request));
    expect(payload).toMatchObject({ stdout_truncated: true, stderr_truncated: true });
    // Counted as the JSON that it becomes: a control character takes six bytes there.
    expect(payload['stderr']).toBe('\u001b'.repeat(100));
    expect(payload['stdout']).toBe('\uFFFD'.repeat(200));
  });

  test("passes on bytes that aren't text as replacements", async () => {
    const config = { commands: { bytes: ['printf', String.raw`a\377\376b`] } };
    const { events } = await runOk('sys-exec', {
      command: 'run',
      config,
      payload: { command: 'bytes' },
    });
    expect(events[0]?.payload).toMatchObject({ stdout: 'a\uFFFD\uFFFDb' });
  });

  test('stops what takes too long, with its children', async () => {
    const directory = await makeDirectory();
    const file = join(directory, 'pids');
    const config = {
      allow_shell: true,
      commands: {
        hang: `sleep 60 & trap "" TERM; echo $$ $! > ${file}; echo begun; wait; sleep 60`,
      },
      timeout_ms: 300,
    };
    const request = { command: 'run', config, payload: { command: 'hang' } };
    const { error, retry } = await runError('sys-exec', request);
    expect(error).toBe('hang was stopped after 0.3 s: begun');
    expect(retry).toBe(true);
    const pids = (await readFile(file, 'utf8')).trim().split(' ').map(Number);
    expect(pids).toHaveLength(2);
    await expect.poll(() => pids.filter(isAlive)).toEqual([]);
  });

  test('stops before the deadline of the job', async () => {
    const request = {
      command: 'run',
      config: { commands: { hang: ['sleep', '60'] } },
      payload: { command: 'hang' },
      deadline_at: new Date(Date.now() + 2_500).toISOString(),
    };
    const started = performance.now();
    const { response } = await runPlugin('sys-exec', request);
    expect(response).toMatchObject({
      status: 'error',
      error: expect.stringContaining('was stopped'),
    });
    expect(performance.now() - started).toBeLessThan(30_000);
  });

  test('does not wait for a child that keeps the output open', async () => {
    const config = { commands: { leave: 'sleep 8 & echo left' }, allow_shell: true };
    const request = { command: 'run', config, payload: { command: 'leave' } };
    const payload = payloadOf(await runOk('sys-exec', request));
    expect(payload['stdout']).toBe('left\n');
    expect(payload['duration_ms']).toBeLessThan(7_000);
  });

  test('says in its check which program is missing', async () => {
    const config = { commands: { a: ['no-such-program-anywhere'] } };
    const { code, error } = await runError('sys-exec', { command: 'health', config });
    expect(error).toContain('config.commands.a');
    expect(code).toBe(78);
  });
});

function execute(commands: JsonObject, payload: JsonObject): ReturnType<typeof runOk> {
  return runOk('sys-exec', { command: 'run', config: { commands }, payload });
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
