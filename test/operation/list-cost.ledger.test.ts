/**
 * The cost of a list must not depend on the number of rows. Every list of the surfaces is read with
 * every combination of its filters. The tables are much longer than any list may read, and their
 * statistics claim a million rows. SQLite counts its steps, PostgreSQL the rows that it
 * visits. The lists come from the operations: a new filter has to be named here.
 */
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { findLiveFindings } from '../../src/insight/checks.service.ts';
import { overlayLedger, type Ledger } from '../../src/ledger/ledger.ts';
import { sqliteReaders } from '../../src/ledger/sqlite/readers.ts';
import { makeSession } from '../../src/ledger/sqlite/session.ts';
import { ownerOf } from '../../src/operation/context.ts';
import type { Operation } from '../../src/operation/define.ts';
import { operations } from '../../src/operation/all.ts';
import { invoke } from '../../src/operation/invoke.ts';
import { writeLargeLedger } from '../../bench/large-ledger.ts';
import { makeStubEngine } from '../support/stub-engine.ts';
import { countVisits, openExplainer } from '../support/ledger/explain.ts';
import { databases, openBench, type Bench, type Kind } from '../support/ledger/bench.ts';

const ROWS = 30_000;

/** The filters of each list with a value that few or no rows have, which is the hardest to find. */
const lists: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  'job.list': {
    plugin: 'mail',
    command: 'nonesuch',
    status: ['failed', 'timed_out'],
    submitted_by: 'replay',
    from: '2020-01-01T00:00:00Z',
    to: '2020-02-01T00:00:00Z',
    query: 'nonesuch',
  },
  'queue.list': { plugin: 'mail', command: 'nonesuch', submitted_by: 'replay' },
  'job.logs': {
    plugin: 'nonesuch',
    job_id: '01930000-0000-7000-8000-000000000001',
    correlation_id: '01930000-0000-7000-8000-000000000001',
    status: 'crashed',
    since: '2100-01-01T00:00:00Z',
    command: 'nonesuch',
    submitted_by: 'replay',
    from: '2020-01-01T00:00:00Z',
    to: '2100-02-01T00:00:00Z',
    query: 'nonesuch',
  },
  'signal.list': {
    type: 'bench.none',
    source: 'plugin:none',
    subject: 'order/7',
    correlation_id: 'none',
    from: '2020-01-01T00:00:00Z',
    to: '2020-02-01T00:00:00Z',
    order: 'oldest',
  },
  'directive.list': {
    type: 'none',
    status: ['failed'],
    actor: 'nobody',
    target: 'none',
    awaiting_approval: true,
  },
  'run.list': { pipeline: 'none', status: ['halted'], awaiting_approval: true },
  'webhook.deliveries': { id: '/none', verdict: 'skipped' },
  'incident.list': { kind: 'disk_full', all: true },
  'schedule.list': { plugin: 'none', retired: true },
  'schedule.jobs': {},
  'plugin.facts': { fact_type: 'none' },
  'system.breaker': { plugin: 'none', command: 'none' },
};

/** A value for every field that a list can't do without. */
const needed: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  'plugin.facts': { plugin: 'mail' },
};

/** Lists whose rows don't grow with the work that is done, or that read no table. */
const others: Readonly<Record<string, string>> = {
  'config.history': 'snapshots are listed by their number',
  'credential.list': 'credentials are few',
  'installation.list': 'installations are few',
  'package.list': 'packages are files',
  'pipeline.list': 'pipelines are configured',
  'plugin.list': 'plugins are configured',
  'signal.tail': 'it follows the order of rows; see plan.test.ts',
  'system.logs': 'the log is a ring in memory',
  'tenant.list': 'tenants are configured',
  'token.list': 'tokens are limited',
  'webhook.endpoints': 'endpoints are configured',
  'webhook.list': 'webhooks are configured',
};

/** Fields that don't choose rows. */
const paging = new Set(['limit', 'cursor', 'include_result']);

async function fill({ kind, sql }: Bench): Promise<void> {
  const plugins = ['echo', 'mail', 'report'] as const;
  const ledger = { kind, finished: ROWS, queued: ROWS, plugins };
  for (const statement of writeLargeLedger(ledger)) await sql(statement);
  const numbers =
    kind === 'sqlite'
      ? `with recursive n(i) as (select 1 union all select i + 1 from n where i < ${ROWS})`
      : `with n(i) as (select generate_series(1, ${ROWS}))`;
  const at = `'2026-01-01T00:00:00.000Z'`;
  const later = `'2026-01-01T00:00:00.000Z' || ${kind === 'sqlite' ? `printf('%06d', i)` : `to_char(i, 'FM000000')`}`;
  await sql(`insert into directives (id, type, target, params, actor, scope, correlation_id,
      idempotency_key, status, plan, attempt, max_attempts, process_id, signal_id, requested_at,
      started_at, completed_at)
    ${numbers} select 'directive ' || i, 'type', 'target', '{}', 'api', 's', 'c', 'key ' || i,
      'completed', '[]', 1, 1, 'p', 'signal ' || i, ${at}, ${at}, ${at} from n where true`);
  await sql(`insert into pipeline_definitions (hash, name, graph, created_at, last_used_at)
    values ('hash', 'flow', '{"nodes":{}}', ${at}, ${at})`);
  await sql(`insert into pipeline_runs (id, pipeline, definition_hash, status, payload, submitted_by,
      actor, first_job_id, root_job_id, lineage, created_at, completed_at)
    ${numbers} select 'run ' || i, 'flow', 'hash', 'succeeded', '{}', 'api', 'api', 'job ' || i,
      'job ' || i, 'run ' || i, ${at}, ${at} from n where true`);
  await sql(`insert into pipeline_runs (id, pipeline, definition_hash, status, halt_reason, payload,
      submitted_by, actor, first_job_id, root_job_id, lineage, created_at, completed_at)
    ${numbers} select 'halted ' || i, 'flow', 'hash', 'halted', 'rejected', '{}', 'api', 'api',
      'job ' || i, 'job ' || i, 'halted ' || i, ${at}, ${at} from n where true`);
  await sql(`insert into run_steps (run_id, id, branch_id, node, kind, status, started_at)
    ${numbers} select 'run ' || i, 'step ' || i, 'run ' || i, 'w', 'wait', 'waiting', ${at}
      from n where true`);
  await sql(`insert into webhook_deliveries (id, hook_id, verdict, source, headers, body_bytes,
      received_at)
    ${numbers} select 'delivery ' || i, 'hook', 'accepted', 'here', '{}', 1, ${at} from n where true`);
  await sql(`insert into plugin_facts (seq, plugin_name, fact_type, fact_json, created_at)
    ${numbers} select i, 'mail', 'f', '{}', ${at} from n where true`);
  await sql('update storage_sequences set value = ?', [ROWS]);
  await sql(`insert into circuit_breaker_transitions (id, plugin, command, from_state, to_state,
      reason, created_at)
    ${numbers} select 'transition ' || i, 'echo', 'poll', 'closed', 'open', 'failure_threshold',
      ${later} from n where true`);
  await setRowEstimates(kind, sql);
}

/** The database plans as for a million rows that are distributed as these are. */
async function setRowEstimates(kind: Kind, sql: Bench['sql']): Promise<void> {
  await sql('analyze');
  if (kind === 'sqlite') {
    for (const { rowid, stat } of await sql('select rowid, stat from sqlite_stat1')) {
      const [rows = 1, ...each] = String(stat).split(' ').map(Number);
      const scaled = [1_000_000, ...each.map((n) => Math.ceil((n * 1_000_000) / rows))].join(' ');
      await sql('update sqlite_stat1 set stat = ? where rowid = ?', [scaled, Number(rowid)]);
    }
  } else {
    await sql(`update pg_class set reltuples = 1000000 where reltuples >= ${ROWS}
      and relnamespace = (select relnamespace from pg_class where oid = 'job_queue'::regclass)`);
  }
}

/** Every choice of some of the filters. */
function choose(filters: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>>[] {
  return Object.entries(filters).reduce<Record<string, unknown>[]>(
    (all, [name, value]) => [...all, ...all.map((one) => ({ ...one, [name]: value }))],
    [{}],
  );
}

/** Node counts what SQLite did; its types don't say so yet. */
type CountedStatement = StatementSync & { stat(counter: 'vmStep'): number };

interface Meter {
  readonly ledger: Ledger;
  /** The highest cost of a single statement, with that statement. */
  readonly measure: (work: () => Promise<unknown>) => Promise<{ cost: number; step: string }>;
}

async function openMeter(bench: Bench): Promise<Meter> {
  return bench.kind === 'sqlite' ? meterSqlite(bench) : meterPostgres(bench);
}

async function meterSqlite({ open }: Bench): Promise<Meter> {
  const ledger = await open();
  let most = { cost: 0, step: '' };
  const reading = vi.spyOn(sqliteReaders, 'read');
  reading.mockImplementation(async (path, work) => {
    const db = new DatabaseSync(path, { readOnly: true });
    const prepare = db.prepare.bind(db);
    const statements: [string, StatementSync][] = [];
    db.prepare = (sql: string) => {
      const statement = prepare(sql);
      statements.push([sql, statement]);
      return statement;
    };
    try {
      return await work(makeSession(db));
    } finally {
      for (const [step, statement] of statements) {
        const cost = (statement as CountedStatement).stat('vmStep');
        if (cost > most.cost) most = { cost, step };
      }
      db.close();
    }
  });
  onTestFinished(() => reading.mockRestore());
  return {
    ledger,
    async measure(work) {
      most = { cost: 0, step: '' };
      await work();
      return most;
    },
  };
}

async function meterPostgres(bench: Bench): Promise<Meter> {
  const { ledger, explain } = await openExplainer(bench);
  return {
    ledger,
    async measure(work) {
      const visits = (await explain(work)).flatMap(countVisits);
      const [most] = visits.toSorted((a, b) => b.rows - a.rows);
      return { cost: most?.rows ?? 0, step: most?.step ?? '' };
    },
  };
}

/** SQLite takes up to forty steps for a row that it reads as a whole. */
const costMax: Readonly<Record<Kind, number>> = {
  sqlite: 45 * limits.listVisitMax,
  postgres: 1.2 * limits.listVisitMax,
};

function find(name: string): Operation {
  const operation = operations.find((one) => one.name === name);
  if (operation === undefined) throw new Error(`there is no operation ${name}`);
  return operation;
}

test('every list of the operations is measured, with all of its filters', () => {
  const isList = ({ name, effect, input }: Operation): boolean =>
    effect === 'read' && (name.endsWith('.list') || 'limit' in input.shape);
  const unknown = operations
    .filter(isList)
    .map(({ name }) => name)
    .filter((name) => !(name in lists) && !(name in others));
  expect(unknown).toEqual([]);
  for (const [name, filters] of Object.entries(lists)) {
    const fields = Object.keys(find(name).input.shape).filter((field) => !paging.has(field));
    const known = Object.keys({ ...filters, ...needed[name] });
    expect({ name, fields: fields.toSorted() }).toEqual({ name, fields: known.toSorted() });
  }
});

describe.each(databases)('with a million rows on %s', (kind) => {
  test('no filter makes a list look at all of them', async () => {
    const bench = await openBench(kind);
    await fill(bench);
    const { ledger, measure } = await openMeter(bench);
    const stub = await makeStubEngine();
    onTestFinished(() => stub.ledger.close());
    // The figures of the queue are shared by all clients, and no part of a list.
    const readStatistics: Ledger['jobs']['readStatistics'] = () =>
      Promise.resolve({ dead: 0, lanes: [], oldestReadyAt: null });
    const context = {
      engine: { ...stub, ledger: overlayLedger(ledger, { jobs: { readStatistics } }) },
      principal: ownerOf('cli:ann'),
      submittedBy: 'cli',
    } as const;
    // A statement that has to read all rows is recognized.
    const scan = await measure(() => ledger.jobs.list({ query: 'nonesuch', limit: 1 }));
    expect(scan.cost).toBeGreaterThan(costMax[kind]);
    const costly: unknown[] = [];
    for (const [name, filters] of Object.entries(lists)) {
      for (const filter of choose(filters)) {
        const input = { ...filter, ...needed[name] };
        const work = (): Promise<unknown> =>
          invoke(find(name), context, input).catch((error: unknown) => {
            // A webhook or a plugin that isn't there is looked for all the same.
            if (!/NOT_FOUND/.test(String((error as { code?: unknown }).code))) throw error;
          });
        const { cost, step } = await measure(work);
        if (cost > costMax[kind]) costly.push({ name, input, cost, step });
      }
    }
    const { config, catalog } = stub;
    const now = await ledger.now();
    const look = { ledger, config, catalog, now, keyIds: [], isRoot: true };
    const { cost, step } = await measure(() => findLiveFindings(look));
    if (cost > costMax[kind]) costly.push({ name: 'the checks of doctor', cost, step });
    expect(costly).toEqual([]);
  });
});
