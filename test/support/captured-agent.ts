/** An agent that obeys every order in a payload, and a service whose webhook starts it. */
import { appendFile, cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { startApi, type TestApi } from './api-server.ts';
import { makeDirectory } from './directory.ts';
import { eventually } from './instance.ts';
import { pluginsRoot } from './plugin-process.ts';
import { makeTenant, type TestTenant } from './tenants.ts';

export interface CapturedResult {
  readonly prompt: string;
  readonly argv: readonly string[];
  readonly token: string;
  readonly done: readonly { readonly status?: number; readonly text?: string }[];
}

export interface CapturedAgent {
  readonly api: TestApi;
  readonly tenant: TestTenant;
  readSeen(): Promise<CapturedResult[]>;
  /** Delivers orders as a stranger would, and returns the agent's result. */
  order(orders: readonly JsonObject[], more?: JsonObject): Promise<CapturedResult>;
  /** Reads the state that an agent could have changed, without its own tasks. */
  standing(): Promise<unknown>;
}

export const HOPS_MAX = 3;
const headers = { authorization: 'Bearer of-the-sender' };

export async function startCapturedAgent(): Promise<CapturedAgent> {
  let directory = '';
  const agentDirectory = await makeDirectory();
  const program = join(agentDirectory, 'claude');
  await writeFile(program, double, { mode: 0o755 });
  await appendFile(join(agentDirectory, 'seen'), '');
  const tasksDir = await makeDirectory();
  for (const folder of ['triage', 'other']) await mkdir(join(tasksDir, folder));
  const config = { tasks_dir: tasksDir, providers: { claude: { command: [program] } } };
  const api = await startApi({
    service: { max_hops: HOPS_MAX },
    tenants: { trust: 'shared' },
    webhooks: { listen: '127.0.0.1:0' },
    plugins: {
      agent: { api_access: { scopes: ['jobs:ro', 'agent:allow:task'] }, config },
      owner: { uses: 'agent', api_access: { scopes: ['*'] }, config },
      echo: { shared: true },
    },
    pipelines: [{ name: 'gate', steps: [{ id: 'ask', approve: 'May it go on?' }] }],
    async prepare(place) {
      directory = place;
      for (const name of ['plugins/agent', 'sdk']) {
        await cp(join(pluginsRoot, '..', name), join(place, name), { recursive: true });
      }
    },
  });
  const tenant = await makeTenant(api);
  const webhook = {
    id: 'issues',
    title: 'Issues',
    mode: 'cron_task',
    task_folder: 'triage',
    prompt_template: 'Title: {{title}}\n{{text}}',
    instruction: 'Sort this issue.',
    secret: 'of-the-sender',
  };
  const created = await api.ask('/webhooks', { body: JSON.stringify(webhook) });
  expect(created.status).toBe(201);
  const seenFile = join(agentDirectory, 'seen');
  const readSeen = async (): Promise<CapturedResult[]> => {
    const lines = (await readFile(seenFile, 'utf8')).split('\n').slice(0, -1);
    return lines.map((line) => JSON.parse(line) as CapturedResult);
  };
  return {
    api,
    tenant,
    readSeen,
    async order(orders, more = {}) {
      const before = (await readSeen()).length;
      const body = JSON.stringify({ title: 'x', text: `OBEY ${JSON.stringify(orders)}`, ...more });
      expect((await api.deliver('/hooks/issues', { body, headers })).status).toBe(202);
      return await eventually('it has obeyed', async () => (await readSeen())[before]);
    },
    standing: () => standing(api, directory),
  };
}

async function standing(api: TestApi, directory: string): Promise<unknown> {
  const { ledger } = api.server.instance.engine;
  const jobs = await ledger.jobs.list({ limit: 1000 });
  return {
    others: jobs.filter(({ plugin }) => plugin !== 'agent').map(({ id, status }) => [id, status]),
    directives: await ledger.directives.list({ limit: 1000 }),
    signals: (await ledger.signals.list({ limit: 1000 })).filter(({ source }) =>
      source.includes('job'),
    ),
    credentials: await ledger.credentials.list(),
    webhooks: (await ledger.webhooks.list()).map(({ id, settings, updatedAt }) => [
      id,
      settings,
      updatedAt,
    ]),
    tokens: (await ledger.tokens.list()).map(({ id }) => id),
    tenants: await ledger.tenants.list(),
    config: await readFile(join(directory, 'config.yaml'), 'utf8'),
  };
}

/** Program that executes the lines of its prompt that start with OBEY, and prints everything it knows. */
const double = `#!${process.execPath}
const fs = require('node:fs');
const path = require('node:path');
const { DUCTILE_URL: url, DUCTILE_TOKEN: token } = process.env;
const argv = process.argv.slice(2);
const prompt = fs.readFileSync(0, 'utf8');
const orders = prompt.split('\\n').flatMap((l) => (l.startsWith('OBEY ') ? JSON.parse(l.slice(5)) : []));
const call = async ({ method = 'POST', path, body = {}, headers = {} }) => {
  const own = JSON.stringify(prompt).slice(1, -1);
  const sent = JSON.stringify(body).replaceAll('{{prompt}}', () => own);
  const usual = { authorization: 'Bearer ' + token, 'content-type': 'application/json' };
  const options = { method, headers: { ...usual, ...headers } };
  return await new Promise((done) => {
    const request = require('node:http').request(new URL(path, url), options, (answer) => {
      let text = '';
      answer.on('data', (chunk) => (text += chunk));
      answer.on('end', () => done({ status: answer.statusCode, text: text.slice(0, 20000) }));
    });
    request.on('error', (error) => done({ error: error.code }));
    request.end(method === 'GET' ? undefined : sent);
  });
};
(async () => {
  const done = [];
  for (const order of orders) done.push(await call(order));
  const seen = JSON.stringify({ prompt, argv, token, done });
  fs.appendFileSync(path.join(path.dirname(process.argv[1]), 'seen'), seen + '\\n');
  const result = 'My token is ' + token;
  console.log(JSON.stringify({ type: 'result', subtype: 'success', is_error: false, result }));
})();
`;
