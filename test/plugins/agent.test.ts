/** The agent plugin on a task, with programs that behave as the real ones do. */
import { randomUUID } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { withWords } from '../../plugins/agent/outcome.ts';
import { task } from '../../plugins/agent/task.ts';
import { makeAgentFixture, type AgentFixture } from '../support/agent-fixture.ts';
import { codexOutput } from '../support/fake-agent.ts';
import { eventually } from '../support/instance.ts';
import { commandError, commandOk } from '../support/plugin-command.ts';
import { payloadOf, runOk, runPlugin } from '../support/plugin-process.ts';

const runTask = withWords(task);
let agents: AgentFixture;

beforeEach(async () => {
  agents = await makeAgentFixture();
});

describe('a task', () => {
  test('is given to claude in its folder, with nothing allowed that is not allowed by default', async () => {
    const answer = await runOk('agent', agents.task({ title: 'Report', hook_id: 'h1' }));
    expect(answer.result).toBe('success: 12 characters, 5 tokens, $0.0123');
    expect(answer.events).toEqual([
      {
        type: 'agent.result',
        payload: {
          status: 'success',
          text: 'All is well.',
          title: 'Report',
          hook_id: 'h1',
          task_folder: 'report',
          provider: 'claude',
          cost_usd: 0.0123,
          usage: { input_tokens: 10, output_tokens: 5 },
        },
      },
    ]);
    const [call] = await agents.claude.calls();
    expect(call?.stdin).toMatch(/^Look after it\.\n\n.*MEMORY\.md/);
    expect(call?.cwd).toBe(join(agents.tasksDir, 'report'));
    expect(call?.argv).toEqual([
      '-p',
      '--output-format',
      'json',
      '--permission-mode',
      'default',
      '--no-session-persistence',
      '--strict-mcp-config',
    ]);
  });

  test('is given to codex, which may only read', async () => {
    const config = {
      ...agents.settings,
      provider: 'codex',
      model: 'gpt-5',
      reasoning_effort: 'high',
    };
    const answer = await commandOk(runTask, agents.task({}, config));
    expect(payloadOf(answer)).toMatchObject({
      text: 'All is well.',
      provider: 'codex',
      usage: { input_tokens: 7, cached_input_tokens: 1, output_tokens: 3 },
    });
    const [call] = await agents.codex.calls();
    expect(call?.stdin).toMatch(/^Look after it\./);
    expect(call?.argv).toEqual([
      'exec',
      '--json',
      '--color',
      'never',
      '--skip-git-repo-check',
      '--ignore-user-config',
      '--sandbox',
      'read-only',
      '--model',
      'gpt-5',
      '-c',
      'model_reasoning_effort=high',
      '-',
    ]);
  });

  test('is given to codex without the settings of the logged-in user, even if a payload asks for them', async () => {
    const own = { provider: 'codex', cli_parameters: ['--ignore-user-config', '--ephemeral'] };
    await commandOk(runTask, agents.task(own));
    const [call] = await agents.codex.calls();
    expect(call?.argv.filter((part) => part === '--ignore-user-config')).toHaveLength(1);
    expect(call?.argv).toContain('--ephemeral');
  });

  test('takes what the payload says over what the configuration says', async () => {
    const config = {
      ...agents.settings,
      model: 'opus',
      reasoning_effort: 'low',
      permission_mode: 'plan',
    };
    const own = { model: 'haiku', reasoning_effort: 'max', cli_parameters: ['--max-turns', '3'] };
    await commandOk(runTask, agents.task(own, config));
    const [call] = await agents.claude.calls();
    expect(call?.argv.join(' ')).toContain('--model haiku --effort max --permission-mode plan');
    expect(call?.argv.slice(-2)).toEqual(['--max-turns', '3']);
    await commandOk(runTask, agents.task({ model: '', provider: '', title: '' }, config));
    expect((await agents.claude.calls())[1]?.argv).toContain('opus');
    // A model belongs to one provider.
    await commandOk(runTask, agents.task({ provider: 'codex' }, config));
    expect((await agents.codex.calls())[0]?.argv).not.toContain('opus');
  });

  test.each([
    ['acceptEdits', ['--sandbox', 'workspace-write']],
    ['bypassPermissions', ['--dangerously-bypass-approvals-and-sandbox']],
  ])('lets codex do more when permission_mode is %s', async (mode, options) => {
    await commandOk(
      runTask,
      agents.task({ provider: 'codex' }, { ...agents.settings, permission_mode: mode }),
    );
    expect((await agents.codex.calls())[0]?.argv).toEqual(expect.arrayContaining(options));
  });

  test.each([
    '; touch pwned',
    '$(touch pwned)',
    '--dangerously-skip-permissions',
    '-',
    'a\nb "c" 💥',
    'ä'.repeat(200_000),
  ])('sends prompt %# on standard input and not as an argument', async (prompt) => {
    for (const provider of ['claude', 'codex'] as const) {
      await commandOk(runTask, agents.task({ provider }));
      await commandOk(runTask, agents.task({ prompt, provider }));
      const [plain, call] = await agents[provider].calls();
      expect(call?.stdin.startsWith(prompt)).toBe(true);
      expect(call?.argv).toEqual(plain?.argv);
    }
    expect(existsSync(join(agents.tasksDir, 'report/pwned'))).toBe(false);
  });

  test.each(['claude', 'codex'] as const)(
    'for %s shows its prompt in the arguments of no process on the machine',
    async (provider) => {
      const prompt = `secret plan ${randomUUID()}`;
      await agents[provider].behave({ hangs: true });
      const running = runPlugin('agent', agents.task({ prompt, provider }));
      const call = await eventually('it is asked', async () => (await agents[provider].calls())[0]);
      const lines = readdirSync('/proc')
        .filter((name) => /^\d+$/.test(name))
        .map(readArguments);
      process.kill(-call.pid, 'SIGKILL');
      await running;
      expect(call.stdin).toContain(prompt);
      expect(lines.filter((line) => line.includes(agents[provider].program))).not.toEqual([]);
      expect(lines.filter((line) => line.includes(prompt))).toEqual([]);
    },
  );

  test('shows the agent nothing of the environment but what it needs', async () => {
    const config = { ...agents.settings, env: { ANTHROPIC_API_KEY: 'k' } };
    await runOk('agent', agents.task({}, config));
    const names = Object.keys((await agents.claude.calls())[0]?.env ?? {});
    expect(names.filter((name) => !name.startsWith('__')).toSorted()).toEqual([
      'ANTHROPIC_API_KEY',
      'HOME',
      'LANG',
      'PATH',
      'TMPDIR',
    ]);
  });

  test('has a temporary directory of its own that is removed with the run', async () => {
    await runOk('agent', agents.task());
    await runOk('agent', agents.task({ provider: 'codex' }));
    const [claude] = await agents.claude.calls();
    const [codex] = await agents.codex.calls();
    const directories = [claude?.env['TMPDIR'] ?? '', codex?.env['TMPDIR'] ?? ''];
    expect(new Set(directories).size).toBe(2);
    for (const directory of directories) {
      expect(basename(directory)).toMatch(/^ductile-agent-\w{6}$/);
      expect(existsSync(directory)).toBe(false);
    }
    expect([claude?.tmpMode, codex?.tmpMode]).toEqual([0o700, 0o700]);
  });
});

/** Empty for a process that has ended meanwhile. */
function readArguments(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    return '';
  }
}

describe('access to the API', () => {
  const api = {
    url: 'http://127.0.0.1:1',
    mcp_url: 'http://127.0.0.1:1/mcp',
    token: 'job-token-1',
  };

  test('is in the environment, and for claude in a file that is gone afterwards', async () => {
    await commandOk(runTask, { ...agents.task(), api });
    const [call] = await agents.claude.calls();
    expect(call?.env).toMatchObject({
      DUCTILE_URL: api.url,
      DUCTILE_TOKEN: api.token,
      DUCTILE_MCP_URL: api.mcp_url,
    });
    const servers = {
      ductile: { type: 'http', url: api.mcp_url, headers: { Authorization: 'Bearer job-token-1' } },
    };
    expect(JSON.parse(call?.mcp?.text ?? '')).toEqual({ mcpServers: servers });
    expect(call?.mcp?.mode).toBe(0o600);
    const file = call?.argv[call.argv.indexOf('--mcp-config') + 1] ?? '';
    expect(existsSync(dirname(file))).toBe(false);
    expect(call?.argv.join(' ')).toContain('--allowedTools mcp__ductile');
    expect(call?.argv.join(' ')).not.toContain(api.token);
  });

  test('leaves no file behind for long when the plugin is killed', async () => {
    await agents.claude.behave({ hangs: true });
    const killed = runPlugin('agent', { ...agents.task(), api });
    const call = await eventually('it is asked', async () => (await agents.claude.calls())[0]);
    const file = call.argv[call.argv.indexOf('--mcp-config') + 1] ?? '';
    process.kill(call.ppid, 'SIGKILL');
    process.kill(-call.pid, 'SIGKILL');
    await killed;
    expect(statSync(dirname(file)).mode & 0o777).toBe(0o700);
    expect(existsSync(file)).toBe(true);
    await runOk('agent', agents.task({ provider: 'codex' }));
    expect(existsSync(dirname(file))).toBe(false);
  });

  test('is named to codex without the token on its command line', async () => {
    await commandOk(runTask, { ...agents.task({ provider: 'codex' }), api });
    const line = (await agents.codex.calls())[0]?.argv.join(' ') ?? '';
    expect(line).toContain(`-c mcp_servers.ductile.url="${api.mcp_url}"`);
    expect(line).toContain('-c mcp_servers.ductile.bearer_token_env_var="DUCTILE_TOKEN"');
    expect(line).not.toContain(api.token);
  });
});

describe('options from a payload', () => {
  test.each([
    [['--dangerously-skip-permissions']],
    [['--permission-mode', 'bypassPermissions']],
    [['--permission-mode=bypassPermissions']],
    [['--allowedTools', 'Bash']],
    [['--max-turns', '3', 'resume']],
    [['--verbose', 'prompt']],
    [['--max-turns']],
    [['--max-turns', '--verbose']],
    [['prompt']],
    [['--']],
    [['--mcp-config', '/tmp/x']],
  ])('are refused when they would let it do more: %j', async (parameters) => {
    const failed = await commandError(runTask, agents.task({ cli_parameters: parameters }));
    expect(failed.error).toMatch(/^error:exception: payload\.cli_parameters /);
    expect(await agents.claude.calls()).toEqual([]);
  });

  test('never make an option of a prompt', async () => {
    const prompt = '--dangerously-skip-permissions';
    const config = { ...agents.settings, payload_parameters: ['--settings'] };
    await commandOk(runTask, agents.task({ prompt, cli_parameters: ['--settings'] }, config));
    const [call] = await agents.claude.calls();
    expect(call?.argv.join(' ')).not.toContain(prompt);
    expect(call?.stdin).toContain(prompt);
  });

  test('are passed on when the operator allows them by name', async () => {
    const config = { ...agents.settings, payload_parameters: ['--allowedTools'] };
    await commandOk(
      runTask,
      agents.task({ cli_parameters: ['--allowedTools', 'Read,Grep'] }, config),
    );
    expect((await agents.claude.calls())[0]?.argv.slice(-2)).toEqual([
      '--allowedTools',
      'Read,Grep',
    ]);
  });

  test.each([
    ['model', '--dangerously-skip-permissions'],
    ['model', 'a b'],
    ['reasoning_effort', 'high"\n[sandbox]'],
    ['provider', '../claude'],
  ])('a %s of %j is refused', async (key, value) => {
    const failed = await commandError(runTask, agents.task({ [key]: value }));
    expect(failed).toMatchObject({
      retry: false,
      error: expect.stringContaining(`payload.${key}`),
    });
    expect(failed.error).toMatch(/^error:exception/);
  });
});

describe('another program', () => {
  test('gets its prompt where the operator says, never as an option', async () => {
    await agents.claude.behave({ stdout: ' plain words \n' });
    const command = [agents.claude.program, '--model={model}', '--ask', '{prompt}'];
    const config = {
      ...agents.settings,
      providers: { mine: { command } },
      provider: 'mine',
      model: 'm1',
    };
    const answer = await commandOk(runTask, agents.task({ prompt: '--yes' }, config));
    expect(payloadOf(answer)).toMatchObject({ text: 'plain words', provider: 'mine' });
    const [call] = await agents.claude.calls();
    expect(call?.argv.slice(0, 2)).toEqual(['--model=m1', '--ask']);
    expect(call?.argv[2]).toMatch(/^ --yes/);
  });

  test('gets its prompt in a private file where the operator says {prompt_file}', async () => {
    await agents.claude.behave({ stdout: 'read it' });
    const mine = { command: [agents.claude.program, '--file', '{prompt_file}'] };
    const config = { ...agents.settings, providers: { mine }, provider: 'mine' };
    await commandOk(runTask, agents.task({ prompt: 'Secret plan.' }, config));
    const [call] = await agents.claude.calls();
    expect(call?.argv).toEqual(['--file', join(call?.env['TMPDIR'] ?? '', 'prompt.txt')]);
    expect(call?.prompt).toMatchObject({ mode: 0o600 });
    expect(call?.prompt?.text).toMatch(/^Secret plan\./);
    expect(call?.stdin).toBe('');
  });

  test('that shows prompts in its arguments is named by the health check', async () => {
    const mine = { command: [agents.claude.program, '{prompt}'] };
    const config = { ...agents.settings, providers: { mine }, provider: 'mine' };
    const { result } = await runOk('agent', { command: 'health', config });
    expect(result).toContain('shows prompts to every user');
  });

  test('gets its prompt on standard input when there is no place for it', async () => {
    await agents.claude.behave({ stdout: codexOutput('as codex') });
    const mine = { command: [agents.claude.program, 'run'], output: 'codex' };
    const answer = await runOk(
      'agent',
      agents.task({ provider: 'mine' }, { ...agents.settings, providers: { mine } }),
    );
    expect(payloadOf(answer)).toMatchObject({ text: 'as codex' });
    expect(await agents.claude.calls()).toMatchObject([
      { argv: ['run'], stdin: expect.stringMatching(/^Look after it/) },
    ]);
  });

  test('that has no place for an effort or a model refuses them loudly', async () => {
    const config = {
      ...agents.settings,
      providers: { mine: { command: [agents.claude.program] } },
    };
    for (const own of [{ reasoning_effort: 'high' }, { model: 'm' }]) {
      const failed = await commandError(runTask, agents.task({ provider: 'mine', ...own }, config));
      expect(failed.error).toMatch(/^error:exception: mine takes no (reasoning_effort|model)/);
    }
    expect(await agents.claude.calls()).toEqual([]);
  });
});
