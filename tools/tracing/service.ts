import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import type { RecordedFunction, RecorderRequest } from './recorder.ts';

const root = resolve(import.meta.dirname, '../..');
const TOKEN = 'the-token-of-the-trace';

const pluginManifest = (name: string): string =>
  [
    'manifest_spec: ductile.plugin',
    'manifest_version: 1',
    `name: ${name}`,
    'version: 1.0.0',
    'protocol: 2',
    'entrypoint: run',
    'commands: {poll: {}}',
    '',
  ].join('\n');

/** Returns a program that reads its request, appends a line to a file, and prints a fixed response. */
const pluginProgram = (response: string, notes: string): string =>
  `#!/bin/sh\ncat >/dev/null\necho ran >> '${notes}'\nprintf '%s' '${response}'\n`;

/** The service as users run it, in a directory of its own, with a recorder inside. */
export class TracedService {
  readonly #child: ChildProcess;
  readonly #notes: string;
  #api = '';
  #webhooks = '';

  private constructor(child: ChildProcess, notes: string) {
    this.#child = child;
    this.#notes = notes;
  }

  static async start(directory: string): Promise<TracedService> {
    const notes = join(directory, 'failed-attempts');
    await writeFile(notes, '');
    await writePlugin(
      directory,
      'worker',
      pluginProgram('{"status":"ok","result":"done"}', '/dev/null'),
    );
    await writePlugin(
      directory,
      'failing',
      pluginProgram('{"status":"error","error":"no"}', notes),
    );
    await writeFile(join(directory, 'config.yaml'), JSON.stringify(makeConfig()));
    const recorder = join(import.meta.dirname, 'recorder.ts');
    const child = fork(join(root, 'src/main.ts'), ['system', 'start', '--config', directory], {
      execArgv: ['--import', recorder],
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    });
    const service = new TracedService(child, notes);
    await service.#waitUntilReady();
    return service;
  }

  /** Records what executes while the work is done, and until the service is quiet again. */
  async record(work: () => Promise<unknown>): Promise<RecordedFunction[]> {
    await this.#request('begin');
    await work();
    await this.quiet();
    return (await this.#request('end')) as RecordedFunction[];
  }

  /** Waits for bookkeeping that may follow the response. */
  async quiet(ms = QUIET_MS): Promise<void> {
    await new Promise((resolved) => {
      setTimeout(resolved, ms);
    });
  }

  /** Pauses the schedule, and waits until its last job has ended. */
  async pauseSchedule(): Promise<void> {
    await this.#post(`${this.#api}/schedules/failing/pause`, TOKEN, { schedule_id: 'often' });
    await poll('the last job of the schedule to end', async () => {
      const response = await fetch(`${this.#api}/jobs?status=queued,running`, {
        headers: { authorization: `Bearer ${TOKEN}` },
      });
      return ((await response.json()) as { readonly total: number }).total === 0;
    });
  }

  async createWebhook(): Promise<() => Promise<unknown>> {
    const entry = { id: 'traced', title: 'Traced', plugin: 'worker', command: 'poll' };
    const created = await this.#post(`${this.#api}/webhooks`, TOKEN, {
      ...entry,
      respond: 'result',
    });
    const token = String(created['global_token']);
    return () => this.#post(`${this.#webhooks}/hooks/traced`, token, { n: 1 });
  }

  runPipeline(): Promise<unknown> {
    const items = { items: [1, 2, 3] };
    return this.#post(`${this.#api}/pipeline/each?wait=20s`, TOKEN, items);
  }

  /** Waits for so many more attempts of the failing plugin, without asking the service. */
  async waitForAttempts(count: number): Promise<void> {
    const target = (await this.#countAttempts()) + count;
    await poll('the schedule to fire', async () => (await this.#countAttempts()) >= target);
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null) return;
    this.#child.kill('SIGTERM');
    await once(this.#child, 'exit');
  }

  async #countAttempts(): Promise<number> {
    return (await readFile(this.#notes, 'utf8')).split('\n').length;
  }

  async #request(request: RecorderRequest): Promise<unknown> {
    const response = once(this.#child, 'message');
    this.#child.send(request);
    return (await response)[0];
  }

  async #post(url: string, token: string, body: object): Promise<Record<string, unknown>> {
    const response = await fetch(url, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${url} returned ${response.status}: ${text}`);
    return JSON.parse(text) as Record<string, unknown>;
  }

  async #waitUntilReady(): Promise<void> {
    const { stdout } = this.#child;
    if (stdout === null) throw new Error('the service has no standard output');
    const lines: string[] = [];
    const reader = createInterface({ input: stdout });
    const ready = new Promise<void>((resolved, rejected) => {
      reader.on('line', (line) => {
        lines.push(line);
        if (!line.includes('ductile is ready')) return;
        this.#api = addressIn(line, 'api');
        this.#webhooks = addressIn(line, 'webhooks');
        resolved();
      });
      reader.once('close', () => rejected(new Error(`no start:\n${lines.join('\n')}`)));
    });
    await ready;
  }
}

const QUIET_MS = 300;
const POLL_MS = 50;
const POLL_FOR_MS = 30_000;

async function poll(event: string, hasHappened: () => Promise<boolean>): Promise<void> {
  const until = Date.now() + POLL_FOR_MS;
  while (!(await hasHappened())) {
    if (Date.now() > until) throw new Error(`waited ${POLL_FOR_MS} ms for ${event}`);
    await new Promise((resolved) => {
      setTimeout(resolved, POLL_MS);
    });
  }
}

function makeConfig(): object {
  const retry = { max_attempts: 2, backoff_base: '100ms' };
  const circuit_breaker = { threshold: 1000 };
  const schedules = [{ id: 'often', every: '2s', command: 'poll' }];
  return {
    service: { max_workers: 4, shutdown_timeout: '100ms' },
    state: { path: './state' },
    plugin_roots: ['./plugins'],
    plugins: {
      worker: { enabled: true, parallelism: 4 },
      failing: { enabled: true, retry, circuit_breaker, schedules },
    },
    pipelines: [
      {
        name: 'each',
        steps: [
          { id: 'all', foreach: 'payload.items', steps: [{ id: 'use', uses: 'worker.poll' }] },
        ],
      },
    ],
    webhooks: { listen: '127.0.0.1:0', endpoints: [] },
    api: {
      enabled: true,
      listen: '127.0.0.1:0',
      auth: { tokens: [{ name: 'owner', token: TOKEN, scopes: ['*'] }] },
    },
  };
}

async function writePlugin(directory: string, name: string, program: string): Promise<void> {
  const home = join(directory, 'plugins', name);
  await mkdir(home, { recursive: true });
  await writeFile(join(home, 'manifest.yaml'), pluginManifest(name));
  await writeFile(join(home, 'run'), program);
  await chmod(join(home, 'run'), 0o755);
}

function addressIn(line: string, listener: string): string {
  const found = new RegExp(`"${listener}":"([^"]+)"`).exec(line)?.[1] ?? '';
  return found === '' ? '' : `http://${found.replace(/^https?:\/\//, '')}`;
}
