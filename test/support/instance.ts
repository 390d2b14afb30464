/** Engine instances for tests, with their own configuration, plugins, state and log. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { onTestFinished } from 'vitest';
import { openInstance } from '../../src/app/instance.ts';
import type { JsonObject } from '../../src/base/json.ts';
import { makeLogger, type Log } from '../../src/base/log.ts';
import type { Config } from '../../src/config/config.ts';
import type { JobSubmission } from '../../src/job/enqueue.service.ts';
import type { LedgerEngine } from '../../src/engine/ledger-engine.ts';
import type { Attempt } from '../../src/job/attempt.ts';
import type { Job } from '../../src/job/job.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { makeDirectory } from './directory.ts';
import { openWithOverrides, type EngineOverrides } from './engine-overrides.ts';
import { writePackage } from './packages.ts';
import { writeConfig, writePlugin } from './plugin-tree.ts';
import { placeLedger } from './place-ledger.ts';
import { makeSchemaUrl } from './postgres.ts';

export type Database = Ledger['kind'];
export const databases: readonly Database[] = ['sqlite', 'postgres'];

export interface TestPlugin {
  readonly program: string;
  /** Commands in flow YAML. */
  readonly commands?: string;
  /** Additional lines of its manifest. */
  readonly manifest?: string;
  /** Its configuration, besides fast retries. */
  readonly settings?: JsonObject;
}

export interface Setup {
  readonly database?: Database;
  readonly plugins?: Readonly<Record<string, TestPlugin>>;
  /** Aliases in the configuration. */
  readonly aliases?: Readonly<Record<string, JsonObject>>;
  readonly routes?: readonly JsonObject[];
  readonly pipelines?: readonly JsonObject[];
  readonly service?: JsonObject;
  readonly directives?: JsonObject;
  /** Manifests of packages, by directory. */
  readonly packages?: Readonly<Record<string, JsonObject>>;
  readonly tenants?: JsonObject;
  readonly webhooks?: JsonObject;
  readonly api?: JsonObject;
  /** Leaves the creation of a SQLite ledger to the service. */
  readonly isBare?: boolean;
}

/** Configuration directory with its state, for several instances in sequence. */
export interface TestPlace {
  readonly directory: string;
  readonly config: Config;
  /** Creates a second configuration with the same plugins and state, like another host. */
  vary(setup: Partial<Omit<Setup, 'database'>>): Promise<TestPlace>;
  notes(): Promise<string[]>;
  /** Lets plugins continue that wait for this gate. */
  openGate(name: string): Promise<void>;
  /** Changes rows directly. `?` stands for values, and tables have no schema. */
  sql(statement: string, ...values: (string | number | null)[]): Promise<void>;
  /** Starts an instance, which is closed at the end of the test. */
  start(overrides?: EngineOverrides): Promise<TestInstance>;
}

export interface TestInstance {
  readonly engine: LedgerEngine;
  readonly ledger: Ledger;
  readonly records: LogRecords;
  /** Submits a job and returns its id. */
  readonly submit: Submit<string>;
  /** Submits a job and waits for its end. */
  readonly run: Submit<Job>;
  readonly ended: (jobId: string) => Promise<Job>;
  readonly attempts: (jobId: string) => Promise<Attempt[]>;
  readonly close: () => Promise<void>;
}

type Submit<T> = (plugin: string, payload?: JsonObject, more?: SubmitMore) => Promise<T>;

export interface SubmitMore {
  readonly command?: string;
  readonly dedupeKey?: string;
  readonly context?: JsonObject;
  readonly due?: NonNullable<JobSubmission['due']>;
  readonly isAwaited?: boolean;
}

export type LogRecord = Readonly<Record<string, unknown>> & {
  readonly level: string;
  readonly message: string;
};
export type LogRecords = readonly LogRecord[];

const timeoutMs = 120_000;
/** Poll intervals, which grow with the waited time. */
const pollMs = { leastMs: 5, mostMs: 50, share: 0.1 };

export async function makePlace(setup: Setup): Promise<TestPlace> {
  const directory = await makeDirectory();
  for (const [name, plugin] of Object.entries(setup.plugins ?? {})) {
    const { program, commands = '{poll: {}, handle: {}}', manifest: extra = '' } = plugin;
    const files = { name, entrypoint: 'run', program, commands: `commands: ${commands}`, extra };
    await writePlugin(join(directory, 'plugins', name), files);
  }
  for (const [name, manifest] of Object.entries(setup.packages ?? {})) {
    await writePackage(join(directory, 'packages', name), manifest);
  }
  const state = await makeState(directory, setup);
  return openPlace(directory, setup, state);
}

/** Creates an empty ledger; returns the `state` section of its configuration. */
export async function makeState(
  directory: string,
  { database, isBare = false }: Pick<Setup, 'database' | 'isBare'>,
): Promise<JsonObject> {
  if (database === 'postgres') return { url: await makeSchemaUrl() };
  const path = './state/ledger.db';
  if (!isBare) await placeLedger(join(directory, path));
  return { path };
}

async function openPlace(directory: string, setup: Setup, state: JsonObject): Promise<TestPlace> {
  const config = await writeConfig(directory, JSON.stringify({ ...toConfig(setup), state }));
  return {
    directory,
    config,
    vary: (more) => {
      const service = { ...setup.service, ...more.service };
      return openPlace(directory, { ...setup, ...more, service }, state);
    },
    async notes() {
      const text = await readFile(join(directory, 'notes'), 'utf8').catch(() => '');
      return text.split('\n').slice(0, -1);
    },
    openGate: (name) => writeFile(join(directory, `gate-${name}`), ''),
    sql: (statement, ...values) => runSql(config, statement, values),
    start: (overrides) => startInstance(config, overrides),
  };
}

/**
 * Creates a configuration with short times. On PostgreSQL `reap_after` is long: a busy machine that
 * stalls for that long would have its attempts killed, as intended.
 */
function toConfig(setup: Setup): JsonObject {
  const quickRetries = { backoff_base: '10ms' };
  const plugins = Object.entries(setup.plugins ?? {}).map(([name, { settings }]) => {
    const retry = { ...quickRetries, ...(settings?.['retry'] as JsonObject | undefined) };
    return [name, { ...settings, retry }];
  });
  return {
    service: {
      max_workers: 4,
      heartbeat_interval: '50ms',
      reap_after: setup.database === 'postgres' ? '10s' : '200ms',
      poll_interval: '20ms',
      shutdown_timeout: '50ms',
      ...setup.service,
    },
    plugin_roots: ['./plugins'],
    ...(setup.packages === undefined ? {} : { package_roots: ['./packages'] }),
    plugins: { ...(Object.fromEntries(plugins) as JsonObject), ...setup.aliases },
    routes: [...(setup.routes ?? [])],
    ...(setup.pipelines === undefined ? {} : { pipelines: [...setup.pipelines] }),
    ...(setup.directives === undefined ? {} : { directives: setup.directives }),
    ...(setup.tenants === undefined ? {} : { tenants: setup.tenants }),
    ...(setup.webhooks === undefined ? {} : { webhooks: setup.webhooks }),
    ...(setup.api === undefined ? {} : { api: setup.api }),
  };
}

async function startInstance(
  config: Config,
  overrides: EngineOverrides | undefined,
): Promise<TestInstance> {
  const { log, records } = collectLog();
  const opened = await (overrides === undefined
    ? openInstance(config, log)
    : openWithOverrides(config, log, overrides));
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => (closing ??= opened.close());
  onTestFinished(close);
  const { engine } = opened;
  await engine.start();
  const { ledger } = engine;
  const submit: Submit<string> = async (plugin, payload = {}, more = {}) => {
    const { command = 'poll', ...rest } = more;
    const submission = { plugin, command, payload, submittedBy: 'api', actor: 'test' } as const;
    return (await engine.submit({ ...submission, ...rest })).jobId;
  };
  const ended = (jobId: string): Promise<Job> => engine.waitFor(jobId, timeoutMs);
  return {
    engine,
    ledger,
    records,
    submit,
    run: async (...args) => ended(await submit(...args)),
    ended,
    attempts: (jobId) => ledger.attempts.listByJob([jobId]),
    close,
  };
}

export function collectLog(): { readonly log: Log; readonly records: LogRecords } {
  const records: LogRecord[] = [];
  const destination = {
    write: (line: string) => void records.push(JSON.parse(line) as LogRecord),
  };
  return { log: makeLogger({ level: 'debug', format: 'json', destination }), records };
}

/** Polls until `read` returns a value; the test fails if that takes too long. */
export async function eventually<T>(
  what: string,
  read: () => T | undefined | false | Promise<T | undefined | false>,
  ms = timeoutMs,
): Promise<T> {
  const startMs = performance.now();
  for (;;) {
    const found = await read();
    if (found !== undefined && found !== false) return found;
    const waited = performance.now() - startMs;
    if (waited > ms) throw new Error(`waited in vain until ${what}`);
    await sleep(Math.min(pollMs.mostMs, Math.max(pollMs.leastMs, waited * pollMs.share)));
  }
}

async function runSql(
  { state }: Config,
  statement: string,
  values: readonly (string | number | null)[],
): Promise<void> {
  if (state.kind === 'sqlite') {
    const db = new DatabaseSync(state.path, { timeout: timeoutMs });
    db.prepare(statement).run(...values);
    db.close();
    return;
  }
  let index = 0;
  const text = statement.replaceAll('?', () => `$${(index += 1)}`);
  const client = new pg.Client({
    connectionString: state.url,
    options: `-c search_path=${state.schema}`,
  });
  await client.connect();
  try {
    await client.query(text, [...values]);
  } finally {
    await client.end();
  }
}
