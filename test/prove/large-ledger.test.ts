/**
 * A ledger with as many finished as queued jobs, and all kinds of requests at once: two dashboards,
 * every list with every filter, monitors without a pause, and submitted jobs. No read that isn't by
 * key runs in the thread of the service, and shared data is read few times for any number of clients.
 * `npm run prove` uses a million of each; `npm test` uses thousands.
 */
import { join } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { expect, vi } from 'vitest';
import { writeLargeLedger } from '../../bench/large-ledger.ts';
import { listRequests, overviewPaths } from '../../bench/large-requests.ts';
import { openServer } from '../../src/app/server.ts';
import type { Config } from '../../src/config/config.ts';
import { sqliteReaders } from '../../src/ledger/sqlite/readers.ts';
import { makeDirectory } from '../support/directory.ts';
import { collectLog } from '../support/instance.ts';
import { placeLedger } from '../support/place-ledger.ts';
import { succeeds } from '../support/plugin-program.ts';
import { writeConfig, writePlugin } from '../support/plugin-tree.ts';
import { campaign, isShort } from './support/campaign.ts';

const TOKEN = 'owner-token-0123456789abcdef';
const PLUGIN = 'echo';
const JOBS = isShort ? 12_000 : 1_000_000;
const DASHBOARDS = 2;
const ROUNDS = isShort ? 2 : 20;
/** Requests of monitors, which are sent in groups, so that few background reads fall into their time. */
const MONITORS = isShort ? 500 : 2000;
const MONITORS_AT_ONCE = 25;
const SUBMITTED = isShort ? 40 : 500;

/**
 * The allowed work of a statement in the thread of the service: a read by key, or a small write.
 */
const STEPS_MAX = 3000;

/** Node counts what SQLite did; its types don't say so yet. */
type CountedStatement = StatementSync & { stat(counter: 'vmStep' | 'run'): number };

campaign('large-ledger', { trials: 1, timeoutMs: isShort ? 180_000 : 1_800_000 }, async () => {
  const config = await makeLarge();
  const statements = collectStatements();
  const reads = vi.spyOn(sqliteReaders, 'read');
  const server = await openServer(config, collectLog().log);
  try {
    const port = Number(server.surfaces.api?.split(':').at(-1));
    const ask = makeAsk(port);
    // The first of all reads the figures; the monitors after it get them from memory.
    await ask('/healthz');
    await ask('/metrics');
    const before = reads.mock.calls.length;
    const health: number[] = [];
    const monitor = async (): Promise<void> => {
      health.push(await ask('/healthz'));
      await ask('/metrics');
    };
    for (let at = 0; at < MONITORS; at += MONITORS_AT_ONCE) {
      await Promise.all(Array.from({ length: MONITORS_AT_ONCE }, monitor));
    }
    const monitored = reads.mock.calls.length - before;
    const lists = Object.values(listRequests(PLUGIN));
    const dashboards = Array.from({ length: DASHBOARDS }, async () => {
      for (let round = 0; round < ROUNDS; round += 1) await Promise.all(overviewPaths.map(ask));
    });
    const readers = async (): Promise<void> => {
      for (const path of lists) await ask(path);
    };
    const alone = await submit(ask);
    const [beside] = await Promise.all([submit(ask), readers(), ...dashboards]);
    const heavy = findHeavy(statements);
    expect(heavy).toEqual([]);
    // Background reads every two seconds, and those of the service itself; not one for each request.
    expect(monitored).toBeLessThan(MONITORS / 2);
    return {
      jobs: 2 * JOBS,
      monitored,
      healthP99Ms: percentile(health),
      aloneP99Ms: percentile(alone),
      besideP99Ms: percentile(beside),
    };
  } finally {
    await server.close();
    vi.restoreAllMocks();
  }
});

/** A configuration with a paused ledger, so that queued jobs stay queued. */
async function makeLarge(): Promise<Config> {
  const directory = await makeDirectory();
  await writePlugin(join(directory, 'plugins', PLUGIN), {
    name: PLUGIN,
    entrypoint: 'run',
    program: succeeds,
    commands: 'commands: {poll: {}, handle: {}}',
  });
  const path = join(directory, 'state', 'ledger.db');
  await placeLedger(path);
  const db = new DatabaseSync(path);
  db.exec('pragma journal_mode = off; pragma synchronous = off; pragma cache_size = -200000');
  const plugins = [PLUGIN, 'mail', 'report'] as const;
  const contents = { kind: 'sqlite', finished: JOBS, queued: JOBS, plugins } as const;
  for (const statement of writeLargeLedger(contents)) db.exec(statement);
  db.exec(`insert into ledger_meta (key, value) values ('paused', '1')`);
  db.exec('pragma journal_mode = wal');
  db.close();
  return writeConfig(
    directory,
    JSON.stringify({
      service: { max_workers: 2 },
      state: { path: './state/ledger.db' },
      plugin_roots: ['./plugins'],
      api: {
        enabled: true,
        listen: '127.0.0.1:0',
        auth: { tokens: [{ name: 'owner', token: TOKEN, scopes: ['*'] }] },
      },
    }),
  );
}

/** The statements that are prepared in this thread from now on, which is that of the service. */
function collectStatements(): Map<CountedStatement, string> {
  const statements = new Map<CountedStatement, string>();
  // eslint-disable-next-line typescript/unbound-method -- it is called on its own database below
  const prepare = DatabaseSync.prototype.prepare;
  vi.spyOn(DatabaseSync.prototype, 'prepare').mockImplementation(function (
    this: DatabaseSync,
    sql: string,
  ) {
    const statement = prepare.call(this, sql) as CountedStatement;
    statements.set(statement, sql);
    return statement;
  });
  return statements;
}

/** Statements that took many steps each time they ran. */
function findHeavy(statements: ReadonlyMap<CountedStatement, string>): string[] {
  return [...statements].flatMap(([statement, sql]) => {
    try {
      const steps = statement.stat('vmStep') / Math.max(1, statement.stat('run'));
      return steps > STEPS_MAX ? [`${Math.round(steps)} steps: ${sql}`] : [];
    } catch {
      // Its connection is closed.
      return [];
    }
  });
}

type AskPath = (path: string) => Promise<number>;

function makeAsk(port: number): AskPath {
  return async (path) => {
    const since = performance.now();
    const [route = path, body] = path.split(' ');
    const reply = await fetch(`http://127.0.0.1:${port}${route}`, {
      headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { method: 'POST', body }),
    });
    const text = await reply.text();
    expect({ path, status: reply.status, text: reply.ok ? '' : text }).toEqual({
      path,
      status: body === undefined ? 200 : 202,
      text: '',
    });
    return performance.now() - since;
  };
}

async function submit(ask: AskPath): Promise<number[]> {
  const times: number[] = [];
  for (let at = 0; at < SUBMITTED; at += 1) times.push(await ask(`/plugin/${PLUGIN}/handle {}`));
  return times;
}

function percentile(samples: readonly number[]): number {
  const sorted = samples.toSorted((a, b) => a - b);
  return Math.round(sorted[Math.floor(sorted.length * 0.99)] ?? 0);
}
