/** The ends of agent tasks: in time or not, successful or not, and always with a reason. */
import { existsSync } from 'node:fs';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { withWords } from '../../plugins/agent/outcome.ts';
import { task } from '../../plugins/agent/task.ts';
import type { JsonObject } from '../../src/base/json.ts';
import { makeAgentFixture, type AgentFixture } from '../support/agent-fixture.ts';
import { claudeOutput, isGone } from '../support/fake-agent.ts';
import { eventually } from '../support/instance.ts';
import { commandError, commandOk } from '../support/plugin-command.ts';
import { payloadOf, runError, runOk } from '../support/plugin-process.ts';

const runTask = withWords(task);
let agents: AgentFixture;

beforeEach(async () => {
  agents = await makeAgentFixture();
});

describe('a task that fails ends with its word', () => {
  test.each<[string, JsonObject, RegExp]>([
    ['no folder', { task_folder: null }, /^error:no_task_folder$/],
    ['an empty name', { task_folder: '' }, /^error:no_task_folder$/],
    [
      'another folder',
      { task_folder: 'nowhere' },
      /^error:folder_missing: there is no folder 'nowhere'/,
    ],
    ['a way out', { task_folder: '..' }, /^error:folder_missing/],
    ['a path', { task_folder: 'report/..' }, /^error:folder_missing/],
    ['an absolute path', { task_folder: '/etc' }, /^error:folder_missing/],
    ['a link that leads out', { task_folder: 'out' }, /^error:folder_missing: 'out' leads out of/],
    ['a file', { task_folder: 'file' }, /^error:folder_missing/],
    ['folders of conversations', { task_folder: '_conversations' }, /^error:folder_missing/],
    ['no prompt', { prompt: null }, /^error:exception: payload\.prompt/],
  ])('%s', async (_what, own, error) => {
    await symlink('/etc', join(agents.tasksDir, 'out'));
    await writeFile(join(agents.tasksDir, 'file'), '');
    await mkdir(join(agents.tasksDir, '_conversations'));
    const failed = await commandError(runTask, agents.task(own));
    expect(failed.error).toMatch(error);
    expect(failed.retry).toBe(false);
    expect(await agents.claude.calls()).toEqual([]);
  });

  test('a program that is not there', async () => {
    const providers = { claude: { command: [join(agents.tasksDir, 'no-claude')] } };
    const failed = await commandError(runTask, agents.task({}, { ...agents.settings, providers }));
    expect(failed.error).toMatch(/^error:cli_not_found_claude: .*ENOENT/);
  });

  test('an exit code, with its output', async () => {
    await agents.claude.behave({ code: 3, stderr: 'no credit\n' });
    expect(await commandError(runTask, agents.task())).toMatchObject({
      error: 'error:exit_3: no credit',
      retry: false,
    });
    const answer = JSON.parse(claudeOutput('Please run /login')) as JsonObject;
    await agents.claude.behave({ code: 1, stdout: JSON.stringify({ ...answer, is_error: true }) });
    expect((await commandError(runTask, agents.task())).error).toBe(
      'error:exit_1: Please run /login',
    );
    await agents.claude.behave({ dies: 'SIGKILL' });
    expect((await commandError(runTask, agents.task())).error).toBe('error:exit_137');
  });

  test('an answer that says itself that it failed', async () => {
    const answer = { type: 'result', subtype: 'error_max_turns', is_error: false };
    await agents.claude.behave({ stdout: JSON.stringify(answer) });
    expect((await commandError(runTask, agents.task())).error).toBe(
      'error:exception: error_max_turns',
    );
    await agents.codex.behave({ stdout: '{"type":"turn.failed","error":{"message":"quota"}}\n' });
    expect((await commandError(runTask, agents.task({ provider: 'codex' }))).error).toBe(
      'error:exception: quota',
    );
  });

  test('output without an end', async () => {
    await agents.claude.behave({ floods: 40 * 1024 * 1024 });
    expect((await commandError(runTask, agents.task())).error).toMatch(
      /^error:exception: claude wrote more than/,
    );
  });
});

describe('an answer', () => {
  test('that is garbage is shown as it is, and cut', async () => {
    await agents.claude.behave({ stdout: `\u0007 not JSON ${'x'.repeat(5000)}` });
    const { text } = payloadOf(await commandOk(runTask, agents.task()));
    expect(text).toMatch(/not JSON x/);
    expect(text).toHaveLength(2000);
  });

  test('that is empty is still a success of a task', async () => {
    await agents.claude.behave({ stdout: claudeOutput('') });
    expect(payloadOf(await commandOk(runTask, agents.task()))).toMatchObject({
      status: 'success',
      text: '',
    });
    await agents.claude.behave({});
    expect(payloadOf(await commandOk(runTask, agents.task()))).toMatchObject({
      status: 'success',
      text: '',
    });
  });

  test('that is huge is cut to what an event holds', async () => {
    await agents.claude.behave({ stdout: claudeOutput('\u0001'.repeat(1_000_000)) });
    const payload = payloadOf(await commandOk(runTask, agents.task()));
    expect(payload).toMatchObject({ truncated: true });
    expect(JSON.stringify(payload).length).toBeLessThan(500_000);
  });
});

describe('time', () => {
  test('ends the agent and all that it started, also what takes no notice', async () => {
    await agents.claude.behave({ forks: true, hangs: true });
    // A busy machine may need longer until the agent has started anything.
    let failed: Awaited<ReturnType<typeof runError>>;
    let waitMs = 1500;
    do {
      failed = await runError('agent', { ...agents.task(), deadline_at: inMs(waitMs) });
      waitMs *= 2;
    } while (!existsSync(join(agents.claude.directory, 'forked')) && waitMs < 20_000);
    expect(failed).toMatchObject({ error: 'error:timeout: claude was stopped', retry: false });
    const pid = await agents.claude.forkedPid();
    await eventually('what it started is gone', () => isGone(pid));
  });

  test('is not waited for when only something left behind holds the output open', async () => {
    await agents.claude.behave({ forks: true, stdout: claudeOutput('done') });
    expect(payloadOf(await commandOk(runTask, agents.task()))).toMatchObject({ text: 'done' });
    const pid = await agents.claude.forkedPid();
    await eventually('what it left is gone', () => isGone(pid));
  });
});

describe('scaffold', () => {
  test('makes a folder that a task can use, and refuses one that exists', async () => {
    const payload = { task_folder: 'daily', description: 'Read the news.' };
    const request = { command: 'scaffold', config: agents.settings, payload };
    expect((await runOk('agent', request)).result).toContain(join(agents.tasksDir, 'daily'));
    const read = (name: string): Promise<string> =>
      readFile(join(agents.tasksDir, 'daily', name), 'utf8');
    expect(await read('TASK.md')).toContain('Read the news.');
    expect(await read('AGENTS.md')).toContain('MEMORY.md');
    expect(await read('CLAUDE.md')).toBe('@AGENTS.md\n');
    await commandOk(runTask, agents.task({ task_folder: 'daily' }));
    await writeFile(join(agents.tasksDir, 'daily/MEMORY.md'), 'kept');
    expect((await runError('agent', request)).error).toContain(
      "there is a task folder 'daily' already",
    );
    expect(await read('MEMORY.md')).toBe('kept');
    const out = { ...request, payload: { task_folder: '../daily2' } };
    expect((await runError('agent', out)).error).toMatch(/^error:folder_missing/);
  });
});

describe('settings', () => {
  test.each<[string, JsonObject]>([
    ['config.tasks_dir', { tasks_dir: 'relative' }],
    ['config.provider', { provider: 'gemini' }],
    ['config.permission_mode', { permission_mode: 'yolo' }],
    ['config.env', { env: { DUCTILE_TOKEN: 'mine' } }],
    ['config.env', { env: { 'A B': 'x' } }],
    ['config.payload_parameters', { payload_parameters: ['dangerously'] }],
    ['config.providers', { providers: { 'A B': { command: ['x'] } } }],
    ['config.providers.mine.command', { providers: { mine: {} } }],
    ['config.providers.mine.command', { providers: { mine: { command: ['{prompt}'] } } }],
    [
      'config.providers.mine.resume',
      { providers: { mine: { command: ['x'], output: 'claude', resume: ['x'] } } },
    ],
    ['config.providers.mine.ouput', { providers: { mine: { command: ['x'], ouput: 'text' } } }],
    [
      'config.providers.claude.command',
      { providers: { claude: { command: ['claude', '{prompt}'] } } },
    ],
  ])('are refused as a configuration error: %s of %j', async (key, more) => {
    const failed = await commandError(runTask, agents.task({}, { ...agents.settings, ...more }));
    expect(failed).toMatchObject({ code: 78, retry: false });
    expect(failed.error).toContain(`error:exception: ${key}`);
  });

  test('are not well without the folder or the program', async () => {
    const check = (more: JsonObject) =>
      runError('agent', { command: 'health', config: { ...agents.settings, ...more } });
    expect((await check({ tasks_dir: join(agents.tasksDir, 'no') })).error).toContain(
      'config.tasks_dir',
    );
    const providers = { claude: { command: ['no-such-claude'] } };
    expect((await check({ providers })).error).toMatch(/^error:cli_not_found_claude/);
  });
});

function inMs(ms: number): string {
  return new Date(Date.now() + ms).toISOString();
}
