/** Conversations with an agent: turns that continue, and heartbeats that are mostly silent. */
import { mkdir, realpath, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { heartbeat } from '../../plugins/agent/heartbeat.ts';
import { withWords } from '../../plugins/agent/outcome.ts';
import { turn } from '../../plugins/agent/turn.ts';
import type { JsonObject } from '../../src/base/json.ts';
import { makeDirectory } from '../support/directory.ts';
import { claudeOutput, codexOutput, makeFakeAgent, type FakeAgent } from '../support/fake-agent.ts';
import { eventually } from '../support/instance.ts';
import { commandError, commandOk } from '../support/plugin-command.ts';
import { runOk, type RequestParts } from '../support/plugin-process.ts';

const runTurn = withWords(turn);
const runHeartbeat = withWords(heartbeat);
const long = '2020-01-01T00:00:00.000Z';
let tasksDir: string;
let claude: FakeAgent;

beforeEach(async () => {
  tasksDir = await realpath(await makeDirectory());
  claude = await makeFakeAgent('claude');
  await claude.behave({ stdout: claudeOutput('Hello Ann.', 's-1') });
});

describe('a turn', () => {
  test('begins a session, and the next one continues it in the same folder', async () => {
    const first = await runOk('agent', say({ title: 'Chat' }));
    expect(first.events).toMatchObject([
      { type: 'agent.reply', payload: { conversation: '42', text: 'Hello Ann.', title: 'Chat' } },
    ]);
    expect(first.stateUpdates).toEqual({
      'session:42': { provider: 'claude', id: 's-1', turns: 1, last_at: expect.any(String) },
    });
    const second = await commandOk(runTurn, say({}, first.stateUpdates));
    expect(second.stateUpdates).toMatchObject({ 'session:42': { turns: 2 } });
    const [one, two] = await claude.calls();
    expect(one?.argv).not.toContain('--resume');
    expect(one?.argv).not.toContain('--no-session-persistence');
    expect(two?.argv.join(' ')).toContain('--resume s-1');
    expect(one?.stdin).toBe('Hi.');
    expect([one?.cwd, two?.cwd]).toEqual(Array(2).fill(join(tasksDir, '_conversations/42')));
  });

  test('with codex resumes its thread', async () => {
    const codex = await makeFakeAgent('codex');
    await codex.behave({ stdout: codexOutput('Hello.') });
    const providers = { codex: { command: [codex.program] } };
    const request = say({}, state({ provider: 'codex', id: 't-1' }), {
      provider: 'codex',
      providers,
    });
    await commandOk(runTurn, request);
    const [call] = await codex.calls();
    expect(call?.argv.slice(-5)).toEqual(['--sandbox', 'read-only', 'resume', 't-1', '-']);
    expect(call?.stdin).toBe('Hi.');
  });

  test('with another program continues as the operator configured it', async () => {
    const mine = {
      command: [claude.program, 'new'],
      resume: [claude.program, 'on', '{session}'],
      output: 'claude',
    };
    const config = { provider: 'mine', providers: { mine } };
    // Two conversations: what one turn left in its folder may be newer than the state of the next.
    await commandOk(runTurn, say({}, {}, config));
    const before = state({ provider: 'mine', id: 's-9' }, 'ann');
    await commandOk(runTurn, say({ conversation: 'ann' }, before, config));
    expect(await claude.calls()).toMatchObject([
      { argv: ['new'], stdin: 'Hi.' },
      { argv: ['on', 's-9'], stdin: 'Hi.' },
    ]);
  });

  test('starts a new session when it should, when the agent lost it, or with another provider', async () => {
    await commandOk(runTurn, say({ fresh: true }, state({ id: 's-1' })));
    const elsewhere = state({ id: 's-1', provider: 'codex' }, 'ann');
    await commandOk(runTurn, say({ conversation: 'ann' }, elsewhere));
    const lost = { code: 1, stderr: 'No conversation found with session ID: s-1' };
    await claude.behave({
      stdout: claudeOutput('Hello again.', 's-2'),
      whenArgument: { '--resume': lost },
    });
    const answer = await commandOk(
      runTurn,
      say({ conversation: 'bob' }, state({ id: 's-1' }, 'bob')),
    );
    expect(answer.stateUpdates).toMatchObject({ 'session:bob': { id: 's-2' } });
    expect(answer.logs).toMatchObject([
      { level: 'warn', message: expect.stringContaining('gone') },
    ]);
    const resumed = (await claude.calls()).map(({ argv }) => argv.includes('--resume'));
    expect(resumed).toEqual([false, false, true, false]);
  });

  test('without an answer is an error of its own', async () => {
    await claude.behave({ stdout: claudeOutput('  ') });
    expect(await commandError(runTurn, say())).toMatchObject({
      error: 'error:no_response',
      retry: false,
    });
  });

  test.each<[string, JsonObject]>([
    ['payload.conversation', { conversation: null }],
    ['payload.conversation', { conversation: 'a\u0007b' }],
    ['payload.conversation', { conversation: 'x'.repeat(200) }],
    ['payload.prompt', { prompt: null }],
  ])('is refused: %s of %j', async (key, own) => {
    expect((await commandError(runTurn, say(own))).error).toContain(`error:exception: ${key}`);
  });

  test('stays below the folder, whatever the conversation is called', async () => {
    for (const conversation of ['../../etc', '..', 'a/b', 'Ann & Bob', 'telegram:1']) {
      await commandOk(runTurn, say({ conversation }));
    }
    const folders = (await claude.calls()).map(({ cwd }) => cwd);
    expect(new Set(folders).size).toBe(5);
    const below = new RegExp(`^${tasksDir}/_conversations/\\.[0-9a-f]{32}$`);
    for (const folder of folders) expect(folder).toMatch(below);
  });

  test('that was requested before the last one ended still continues its session', async () => {
    // Both get a state without a session, as if they had been claimed together.
    const [first, second] = await Promise.all([
      commandOk(runTurn, say()),
      commandOk(runTurn, say()),
    ]);
    const calls = await claude.calls();
    expect(calls.filter(({ argv }) => argv.includes('--resume'))).toHaveLength(1);
    const turns = [first, second].map(({ stateUpdates }) => stateUpdates?.['session:42']);
    expect(turns).toContainEqual(expect.objectContaining({ id: 's-1', turns: 2 }));
  });

  test('continues the newer session, that of the state or that in its folder', async () => {
    // The other turn ended after this one was claimed, and before it started.
    await leave({ id: 's-5', last_at: inMs(-1000) });
    await commandOk(runTurn, say({}, state({ id: 's-1', last_at: inMs(-2000) })));
    await commandOk(runTurn, say({}, state({ id: 's-9', last_at: inMs(60_000) })));
    const resumed = (await claude.calls()).map(({ argv }) => argv[argv.indexOf('--resume') + 1]);
    expect(resumed).toEqual(['s-5', 's-9']);
  });

  test('that starts a new session leaves nothing of the old one', async () => {
    await commandOk(runTurn, say());
    await claude.behave({ stdout: '{"type":"result","result":"Hello."}' });
    const { stateUpdates } = await commandOk(runTurn, say({ fresh: true }, state({ id: 's-1' })));
    expect(stateUpdates).toMatchObject({ 'session:42': { id: null, turns: 1 } });
    await commandOk(runTurn, say({}, state({ id: 's-1' })));
    expect((await claude.calls()).filter(({ argv }) => argv.includes('--resume'))).toEqual([]);
  });

  test('waits for another one of the same conversation, and not for one whose process is gone', async () => {
    const folder = await makeFolder('42');
    await writeFile(join(folder, '.turn'), '');
    const busy = await commandError(runTurn, { ...say(), deadline_at: inMs(1500) });
    expect(busy.error).toMatch(/^error:timeout: another turn/);
    const left = new Date(Date.now() - 60_000);
    await utimes(join(folder, '.turn'), left, left);
    await commandOk(runTurn, say());
  });
});

describe('a heartbeat', () => {
  test('is silent when the agent has nothing to say', async () => {
    await claude.behave({ stdout: claudeOutput('HEARTBEAT_OK', 's-2') });
    const answer = await commandOk(runHeartbeat, beat(state({ id: 's-1' })));
    expect(answer).toMatchObject({
      result: '0 had something to say, 1 had not, 0 were not asked',
      events: [],
    });
    expect(answer.stateUpdates).toBeUndefined();
    const [call] = await claude.calls();
    expect(call?.argv.join(' ')).toContain('--resume s-1');
    expect(call?.stdin).toContain('HEARTBEAT_OK');
  });

  test('reports in each conversation that exists', async () => {
    await claude.behave({ stdout: claudeOutput('OK The disk is full.', 's-1') });
    const before = { ...state({ id: 's-1' }), ...state({ id: 's-7' }, 'ann') };
    const own = { prompt: 'Anything? Else {ack_token}.', ack_token: 'OK' };
    const answer = await commandOk(runHeartbeat, beat(before, own));
    expect(answer.events).toMatchObject([
      { type: 'agent.reply', payload: { conversation: '42', text: 'The disk is full.' } },
      { type: 'agent.reply', payload: { conversation: 'ann', text: 'The disk is full.' } },
    ]);
    expect(answer.stateUpdates).toMatchObject({
      'session:42': { turns: 4 },
      'session:ann': { turns: 4 },
    });
    expect((await claude.calls())[0]?.stdin).toBe('Anything? Else OK.');
  });

  test('runs only the named conversation, and creates none', async () => {
    const before = { ...state({ id: 's-1' }), ...state({ id: 's-7' }, 'ann') };
    await commandOk(runHeartbeat, beat(before, { conversation: 'ann' }));
    await commandOk(runHeartbeat, beat(before, { conversation: 'nobody' }));
    await commandOk(runHeartbeat, beat({}));
    expect((await claude.calls()).map(({ argv }) => argv.includes('s-7'))).toEqual([true]);
  });

  test('skips a conversation with a recent, running or other turn', async () => {
    const folder = await makeFolder('busy');
    await writeFile(join(folder, '.turn'), '');
    const before = {
      ...state({ id: 's-1', last_at: new Date().toISOString() }, 'recent'),
      ...state({ id: 's-2', provider: 'codex' }, 'other'),
      ...state({ id: 's-3' }, 'busy'),
      ...state({ id: null }, 'text'),
      'session:broken': 'x',
    };
    const { logs } = await commandOk(runHeartbeat, beat(before));
    expect(logs).toHaveLength(4);
    expect(await claude.calls()).toEqual([]);
  });

  test('continues the current session, and skips a user who wrote since it was claimed', async () => {
    await leave({ id: 's-2', turns: 1, last_at: '2021-01-01T00:00:00.000Z' });
    await leave({ id: 's-7', last_at: inMs(-1000) }, 'ann');
    const before = { ...state({ id: 's-1' }), ...state({ id: 's-7' }, 'ann') };
    const answer = await commandOk(runHeartbeat, beat(before));
    const [call, ...more] = await claude.calls();
    expect(call?.argv.join(' ')).toContain('--resume s-2');
    expect(more).toEqual([]);
    expect(answer.stateUpdates).toMatchObject({ 'session:42': { turns: 2 } });
    expect(answer.logs).toMatchObject([{ message: 'ann: somebody spoke a moment ago' }]);
  });

  test('does not overwrite later turns of a conversation', async () => {
    await claude.behave({
      stdout: claudeOutput('Hello.', 's-9'),
      whenArgument: { 's-1': { stdout: claudeOutput('Hm.', 's-1') }, 's-7': { hangs: true } },
    });
    const before = { ...state({ id: 's-1' }), ...state({ id: 's-7' }, 'ann') };
    const beating = commandOk(runHeartbeat, beat(before));
    const hanging = await eventually('the other is asked', async () => (await claude.calls())[1]);
    await commandOk(runTurn, say({ fresh: true }, before));
    process.kill(hanging.pid, 'SIGKILL');
    const { stateUpdates } = await beating;
    expect(stateUpdates).toMatchObject({ 'session:42': { id: 's-9', turns: 1 } });
    // The folder has the newer session, too, regardless of the state of a later job.
    await commandOk(runTurn, say({}, before));
    expect((await claude.calls()).at(-1)?.argv).toContain('s-9');
  });

  test('costs one that does not answer its share of the time alone', async () => {
    const hangs = { hangs: true };
    await claude.behave({
      stdout: claudeOutput('Hm.'),
      whenArgument: { 's-1': hangs, 's-2': hangs },
    });
    const before = {
      ...state({ id: 's-0', last_at: inMs(-1000) }, 'recent'),
      ...state({ id: 's-1' }),
      ...state({ id: 's-2' }, 'bob'),
      ...state({ id: 's-7' }, 'ann'),
    };
    const answer = await commandOk(runHeartbeat, { ...beat(before), deadline_at: inMs(10_000) });
    expect(answer.events).toMatchObject([{ payload: { conversation: 'ann' } }]);
    expect(answer.logs).toMatchObject([
      { message: 'recent: somebody spoke a moment ago' },
      { message: '42: error:timeout: claude was stopped' },
      { message: 'bob: error:timeout: claude was stopped' },
    ]);
  });

  test('continues when one agent fails, and fails when all do', async () => {
    const broken = { code: 1, stderr: 'broken' };
    await claude.behave({ stdout: claudeOutput('Hm.'), whenArgument: { 's-1': broken } });
    const before = { ...state({ id: 's-1' }), ...state({ id: 's-7' }, 'ann') };
    const answer = await commandOk(runHeartbeat, beat(before));
    expect(answer.events).toMatchObject([{ payload: { conversation: 'ann' } }]);
    expect(answer.logs).toMatchObject([{ level: 'warn', message: '42: error:exit_1: broken' }]);
    const alone = beat(before, { conversation: '42' });
    expect((await commandError(runHeartbeat, alone)).error).toBe('error:exit_1: broken');
  });
});

function settings(more: JsonObject = {}): JsonObject {
  return { tasks_dir: tasksDir, providers: { claude: { command: [claude.program] } }, ...more };
}

function say(own: JsonObject = {}, before: JsonObject = {}, more: JsonObject = {}): RequestParts {
  const payload = { prompt: 'Hi.', conversation: '42', ...own };
  return { command: 'turn', config: settings(more), payload, state: before };
}

function beat(before: JsonObject, payload: JsonObject = {}): RequestParts {
  return { command: 'heartbeat', config: settings(), payload, state: before };
}

function state(session: JsonObject, conversation = '42'): JsonObject {
  return { [`session:${conversation}`]: toValue(session) };
}

/** The session that the last turn left in the folder of its conversation. */
async function leave(session: JsonObject, conversation = '42'): Promise<void> {
  const folder = await makeFolder(conversation);
  await writeFile(join(folder, '.session'), JSON.stringify(toValue(session)));
}

function toValue(session: JsonObject): JsonObject {
  return { provider: 'claude', turns: 3, last_at: long, ...session };
}

async function makeFolder(conversation: string): Promise<string> {
  const folder = join(tasksDir, '_conversations', conversation);
  await mkdir(folder, { recursive: true });
  return folder;
}

function inMs(ms: number): string {
  return new Date(Date.now() + ms).toISOString();
}
