/** Turns of one conversation wait for each other, and not for one that is gone. */
import { existsSync } from 'node:fs';
import { readFile, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { conversationFolder } from '../../plugins/agent/conversation.ts';
import { alone } from '../../plugins/agent/lock.ts';
import { withWords } from '../../plugins/agent/outcome.ts';
import { turn } from '../../plugins/agent/turn.ts';
import { makeDirectory } from '../support/directory.ts';
import { claudeOutput, makeFakeAgent, type Call, type FakeAgent } from '../support/fake-agent.ts';
import { eventually } from '../support/instance.ts';
import { commandError, commandOk } from '../support/plugin-command.ts';
import { runPlugin, type PluginRun, type RequestParts } from '../support/plugin-process.ts';

const runTurn = withWords(turn);
let tasksDir: string;
let lock: string;
let claude: FakeAgent;

beforeEach(async () => {
  tasksDir = await realpath(await makeDirectory());
  lock = join(tasksDir, '_conversations/42/.turn');
  claude = await makeFakeAgent('claude');
  await claude.behave({ stdout: claudeOutput('Hello Ann.', 's-1') });
});

afterEach(() => {
  vi.restoreAllMocks();
});

test('a turn whose process was killed does not hold up the next one', async () => {
  await hangAndKill();
  // The turn's deadline is shorter than the time for which a lock of an unknown holder counts.
  await commandOk(runTurn, { ...say(), deadline_at: inMs(10_000) });
  expect(existsSync(lock)).toBe(false);
});

test('a turn that gets SIGTERM leaves no lock', async () => {
  const { pid, run } = await hang();
  process.kill(pid, 'SIGTERM');
  await run;
  expect(existsSync(lock)).toBe(false);
});

test('many turns that wait for a killed one run one at a time', async () => {
  await hangAndKill();
  const answers = await Promise.all(Array.from({ length: 5 }, () => commandOk(runTurn, say())));
  const turns = answers.map(({ stateUpdates }) => stateUpdates?.['session:42']);
  for (const count of [1, 2, 3, 4, 5]) {
    expect(turns).toContainEqual(expect.objectContaining({ turns: count }));
  }
});

test('a turn waits for as long as there is time for an answer, and is tried again if that was in vain', async () => {
  const folder = await conversationFolder(tasksDir, '42');
  const spoken = Promise.withResolvers<void>();
  const other = alone(folder, 0, () => spoken.promise);
  let agoMs = 0;
  const { now } = Date;
  const clock = vi.spyOn(Date, 'now').mockImplementation(() => now() + agoMs);
  const looksAfter = async (ms: number): Promise<void> => {
    agoMs = ms;
    clock.mockClear();
    await eventually('it has looked again', () => clock.mock.calls.length > 2);
  };
  const waiting = commandOk(runTurn, { ...say(), deadline_at: inMs(90_000) });
  const inVain = commandError(runTurn, { ...say(), deadline_at: inMs(50_000) });
  await looksAfter(30_000);
  await looksAfter(46_000);
  expect(await inVain).toMatchObject({
    error: expect.stringMatching(/^error:timeout: another turn/),
    retry: true,
  });
  expect(await claude.calls()).toEqual([]);
  spoken.resolve();
  await Promise.all([other, waiting]);
});

async function hangAndKill(): Promise<void> {
  const { pid, run, agent } = await hang();
  process.kill(pid, 'SIGKILL');
  await run;
  process.kill(-agent.pid, 'SIGKILL');
  expect(existsSync(lock)).toBe(true);
  await claude.behave({ stdout: claudeOutput('Here I am.', 's-2') });
}

/** A turn in a separate process, whose agent doesn't respond. */
async function hang(): Promise<{ pid: number; run: Promise<PluginRun>; agent: Call }> {
  await claude.behave({ hangs: true });
  const run = runPlugin('agent', say());
  const agent = await eventually('the agent is asked', async () => (await claude.calls())[0]);
  const [, pid] = (await readFile(lock, 'utf8')).split('-');
  return { pid: Number(pid), run, agent };
}

function say(): RequestParts {
  const config = { tasks_dir: tasksDir, providers: { claude: { command: [claude.program] } } };
  return { command: 'turn', config, payload: { prompt: 'Hi.', conversation: '42' } };
}

function inMs(ms: number): string {
  return new Date(Date.now() + ms).toISOString();
}
