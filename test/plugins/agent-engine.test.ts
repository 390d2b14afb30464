/** The whole way: work comes in, an agent does it, and people read of it in Telegram. */
import { cp, mkdir } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { startApi, type TestApi } from '../support/api-server.ts';
import { makeDirectory } from '../support/directory.ts';
import { claudeOutput, isGone, makeFakeAgent, type FakeAgent } from '../support/fake-agent.ts';
import { eventually } from '../support/instance.ts';
import { pluginsRoot } from '../support/plugin-process.ts';
import { startTelegramServer, type TelegramServer } from '../support/telegram-server.ts';

const ANN = 1001;
let api: TestApi;
let telegram: TelegramServer;
let claude: FakeAgent;

beforeAll(async () => {
  telegram = await startTelegramServer();
  claude = await makeFakeAgent('claude');
  const tasksDir = await makeDirectory();
  await mkdir(join(tasksDir, 'report'));
  const bot = { token: telegram.token, api_url: telegram.url, journal_dir: await makeDirectory() };
  const providers = { claude: { command: [claude.program] } };
  const to = 'telegram';
  api = await startApi({
    webhooks: { listen: '127.0.0.1:0' },
    plugins: {
      agent: {
        api_access: { scopes: ['jobs:ro'] },
        timeouts: { task: '2m', turn: '2m' },
        config: { tasks_dir: tasksDir, providers, allowed_users: [ANN] },
      },
      telegram: { config: { ...bot, chats: [ANN], allowed_users: [ANN], wait_s: 0 } },
    },
    routes: ['agent.result', 'agent.reply', 'job.dead'].map((type) => ({ event_type: type, to })),
    pipelines: [
      {
        name: 'chat',
        on: 'telegram.message',
        concurrency: { key: '{payload.chat}', limit: 1 },
        steps: [
          {
            uses: 'agent.turn',
            with: { prompt: '{payload.text}', conversation: '{payload.chat}' },
          },
        ],
      },
    ],
    async prepare(directory) {
      for (const name of ['plugins/agent', 'plugins/telegram', 'sdk']) {
        await cp(join(pluginsRoot, '..', name), join(directory, name), { recursive: true });
      }
    },
  });
});
afterAll(() => api.close());
beforeEach(() => {
  telegram.sent.length = 0;
});

test('a started task is reported when it is done', async () => {
  await claude.behave({ stdout: claudeOutput('Nothing new today.') });
  const reply = await start('agent/task', {
    prompt: 'Look.',
    task_folder: 'report',
    title: 'News',
  });
  expect(reply['status']).toBe('succeeded');
  const text = 'News\n\nNothing new today.';
  await eventually('it was told', () => telegram.sent.length > 0);
  expect(telegram.sent).toEqual([{ chat_id: String(ANN), text }]);
  const { env } = (await claude.calls()).at(-1) ?? {};
  expect(env?.['DUCTILE_URL']).toBe(`http://127.0.0.1:${api.port}`);
  // Its token is worth nothing once its run is over.
  const { status } = await api.ask('/jobs', { token: env?.['DUCTILE_TOKEN'] });
  expect(status).toBe(401);
});

test('a failure is reported with its code', async () => {
  await claude.behave({ code: 3, stderr: 'no credit' });
  const payload = { prompt: 'Look.', task_folder: 'report' };
  expect(await start('agent/task', payload)).toMatchObject({ status: 'failed' });
  await eventually('it was told', () => telegram.sent.length > 0);
  expect(telegram.sent).toMatchObject([
    {
      text: expect.stringMatching(
        /^agent task: failed\nerror:exit_3: no credit\nby token:owner\njob /,
      ),
    },
  ]);
});

test('a message is answered, and the conversation continues', async () => {
  await claude.behave({ stdout: claudeOutput('Hello Ann.', 's-1') });
  for (const [id, text] of [
    [1, 'Hi'],
    [2, 'Hi again'],
  ] as const) {
    const from = { id: ANN };
    telegram.updates.push({ update_id: id, message: { message_id: id, from, chat: from, text } });
    await start('telegram/poll', {});
    await eventually('it was answered', () => telegram.sent.length === id);
  }
  // The same once more is nothing new.
  await start('telegram/poll', {});
  const answer = { chat_id: String(ANN), text: 'Hello Ann.' };
  expect(telegram.sent).toEqual([answer, answer]);
  const calls = (await claude.calls()).slice(-2);
  expect(calls.map(({ stdin }) => stdin)).toEqual(['Hi', 'Hi again']);
  expect(calls[1]?.argv).toContain('s-1');
});

test('a webhook wakes the agent for each allowed user, and the reply is sent once', async () => {
  await claude.behave({ stdout: claudeOutput('I saw it.', 's-1') });
  const webhook = {
    id: 'wake-up',
    title: 'Alarm',
    mode: 'wake',
    prompt_template: 'Alarm {{level}}',
  };
  const made = await api.ask('/webhooks', {
    body: JSON.stringify({ ...webhook, secret: 'of-the-sender' }),
  });
  expect([made.status, made.text]).toEqual([201, expect.any(String)]);
  const headers = { authorization: 'Bearer of-the-sender' };
  const { status } = await api.deliver('/hooks/wake-up', { body: '{"level":"red"}', headers });
  expect(status).toBe(202);
  await eventually('it was told', () => telegram.sent.length > 0);
  expect(telegram.sent).toEqual([{ chat_id: String(ANN), text: 'I saw it.' }]);
  expect((await claude.calls()).at(-1)?.stdin).toContain('Alarm red');
});

test('a task that is cancelled ends with all that the agent started', async () => {
  await claude.behave({ forks: true, hangs: true });
  const body = JSON.stringify({ prompt: 'Look.', task_folder: 'report' });
  const { body: made } = await api.ask('/plugin/agent/task', { body });
  await eventually('it has started something', () => existsSync(join(claude.directory, 'forked')));
  const pid = await claude.forkedPid();
  await api.ask(`/job/${String(made['job_id'])}/cancel`, { method: 'POST', body: '{}' });
  await eventually('that is gone', () => isGone(pid));
});

async function start(command: string, payload: JsonObject): Promise<Record<string, unknown>> {
  const { body } = await api.ask(`/plugin/${command}?wait=60s`, {
    body: JSON.stringify({ payload }),
  });
  return body;
}
