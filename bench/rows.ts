import type { Row, Table } from './frame.ts';
import { dashboardTable } from './rows-dashboard.ts';
import { largeTables } from './rows-large.ts';
import { mcpTable } from './rows-mcp.ts';
import { signalTable } from './rows-signals.ts';
import { startTable } from './rows-start.ts';
import { tenantTable } from './rows-tenants.ts';
import { webhookTables } from './rows-webhooks.ts';

/** Tables with all goals. The report marks rows whose arm is missing. */
export const tables: readonly Table[] = [
  {
    title:
      'Durable queue, a process for each job, durable result: SQLite, on the disk before it is answered',
    rows: [
      rate({
        id: '1',
        title: 'durable jobs, static plugin, 8 slots',
        arms: ['Ductile, SQLite, 8 slots', 'Go durable, 8 slots', 'naive Node, 8 slots'],
        base: 'C limit, 8 slots',
        goal: 0.7,
      }),
      rate({
        id: '2',
        title: 'the same at 16 slots',
        arms: ['Ductile, SQLite, 16 slots'],
        base: 'C limit, 16 slots',
        goal: 0.75,
      }),
      rate({
        id: '3',
        title: 'the same as 1',
        arms: ['Ductile, SQLite, 8 slots'],
        base: 'Go durable, 8 slots',
        goal: 1.5,
      }),
      rate({
        id: '4',
        title: 'the same as 1 with the helper in Node (measured; no goal)',
        arms: ['Ductile, SQLite, 8 slots, Node helper'],
        base: 'C limit, 8 slots',
      }),
      rate({
        id: '5',
        title: 'durable jobs, python plugin, 4 slots',
        arms: ['Ductile, SQLite, python, 4 slots'],
        base: 'C limit, python, 4 slots',
        goal: 0.88,
      }),
      {
        id: '6',
        title: 'delay of the event loop under the load of 1, p99',
        arms: ['Ductile, SQLite, 8 slots'],
        base: 'naive Node, 8 slots',
        metric: 'loopP99Ms',
        unit: 'ms',
        goal: 0.3,
        better: 'lower',
      },
      rate({
        id: '7',
        title: 'the load of 1 with a heap of 1 GB',
        arms: ['Ductile, SQLite, 8 slots, 1 GB heap'],
        base: 'Ductile, SQLite, 8 slots',
        goal: 0.9,
      }),
    ],
  },
  {
    title: 'Durable queue, a process for each job, durable result: PostgreSQL, one host',
    rows: [
      rate({
        id: '8a',
        title: 'durable jobs, static plugin, 8 slots',
        arms: ['Ductile, PostgreSQL, 8 slots'],
        base: 'C limit, 8 slots',
        goal: 0.55,
      }),
      rate({
        id: '8b',
        title: 'the same at 16 slots',
        arms: ['Ductile, PostgreSQL, 16 slots'],
        base: 'C limit, 16 slots',
        goal: 0.7,
      }),
    ],
  },
  {
    title: 'The queue alone (jobs that do nothing): PostgreSQL',
    rows: [
      rate({
        id: '9',
        title: 'no-op jobs, batched',
        arms: ['Ductile, PostgreSQL, no-op'],
        base: 'graphile-worker, batched',
        goal: 1,
      }),
      rate({
        id: '10a',
        title: 'the same',
        arms: ['Ductile, PostgreSQL, no-op'],
        base: 'pg-boss, fetch and complete',
        goal: 1,
      }),
      rate({
        id: '10b',
        title: 'the same',
        arms: ['Ductile, PostgreSQL, no-op'],
        base: 'pg-boss, work()',
        goal: 2,
      }),
      rate({
        id: '11a',
        title: 'the same',
        arms: ['Ductile, PostgreSQL, no-op'],
        base: 'BullMQ, appendfsync always',
        goal: 2,
      }),
      rate({
        id: '11b',
        title: 'the same',
        arms: ['Ductile, PostgreSQL, no-op'],
        base: 'DBOS queue',
        goal: 20,
      }),
    ],
  },
  {
    title: 'Enqueueing one by one, 8 in flight: PostgreSQL',
    rows: [
      rate({
        id: '12a',
        title: 'enqueue through the product’s API',
        arms: ['Ductile, PostgreSQL, enqueue'],
        base: 'graphile-worker, enqueue',
        goal: 3,
      }),
      rate({
        id: '12b',
        title: 'the same',
        arms: ['Ductile, PostgreSQL, enqueue'],
        base: 'pg-boss, enqueue',
        goal: 1.5,
      }),
    ],
  },
  {
    title: 'From enqueueing to running on an idle system: PostgreSQL',
    rows: [
      {
        id: '13',
        title: 'start to run, p50',
        arms: ['Ductile, PostgreSQL, idle'],
        base: 'graphile-worker, idle',
        metric: 'p50Ms',
        unit: 'ms',
        goal: 0.8,
        better: 'lower',
      },
    ],
  },
  {
    title: 'The queue alone (jobs that do nothing): SQLite',
    rows: [
      rate({
        id: '14a',
        title: 'no-op jobs, synchronous=FULL',
        arms: ['Ductile, SQLite, no-op'],
        base: 'plainjob, synchronous=FULL',
        goal: 8,
      }),
      rate({
        id: '14b',
        title: 'the same',
        arms: ['Ductile, SQLite, no-op'],
        base: 'plainjob, as shipped',
        goal: 2,
      }),
    ],
  },
  {
    title: 'History and depth: SQLite',
    rows: [
      rate({
        id: '15a',
        title: 'enqueue, claim, settle with 5 million finished jobs',
        arms: ['Ductile, SQLite, cycle, 5M finished'],
        base: 'Ductile, SQLite, cycle, none finished',
        goal: 0.95,
      }),
      {
        id: '15b',
        title: 'one claim with a million queued jobs, p50',
        arms: ['Ductile, SQLite, claim, 1M queued'],
        base: 'Ductile, SQLite, claim, 1k queued',
        metric: 'p50Ms',
        unit: 'ms',
        goal: 1.5,
        better: 'lower',
      },
    ],
  },
  {
    title:
      'Durable POST /plugin, 202 after the commit, 64 connections: SQLite, on the disk before it is answered',
    rows: [
      request({
        id: '16',
        title: 'requests accepted',
        base: 'the same server, no ledger, POST',
        goal: 0.7,
      }),
      request({
        id: '17a',
        title: 'the same',
        base: 'the same server, commit each, POST',
        goal: 5,
      }),
      {
        ...request({
          id: '17b',
          title: 'the same, p99',
          base: 'the same server, commit each, POST',
          goal: 0.1,
        }),
        metric: 'p99Ms',
        unit: 'ms',
        better: 'lower',
      },
    ],
  },
  {
    title:
      'Enqueueing one by one over HTTP, 8 connections (peers: in process, 8 in flight): PostgreSQL',
    rows: [
      rate({
        id: '12c',
        title: 'POST /plugin',
        arms: ['Ductile, PostgreSQL, POST, 8 connections'],
        base: 'graphile-worker, enqueue',
        goal: 2,
      }),
      rate({
        id: '12d',
        title: 'the same',
        arms: ['Ductile, PostgreSQL, POST, 8 connections'],
        base: 'pg-boss, enqueue',
        goal: 2,
      }),
    ],
  },
  {
    title: 'Pipelines: SQLite, on the disk before it is answered',
    rows: [
      perStep({
        id: '18a',
        title: 'one step of a chain of ten, no-op, p50',
        arms: ['Ductile, SQLite, chain, no-op'],
        base: 'Ductile, SQLite, one job, no-op',
        goal: 1.5,
      }),
      perStep({
        id: '18b',
        title: 'one step of a chain of ten processes, python, p50',
        arms: ['Ductile, SQLite, chain, python'],
        base: 'Ductile, python, one after the other',
        goal: 1.15,
      }),
      rate({
        id: '18c',
        title: 'steps of many chains of ten at once, no-op (measured; no goal)',
        arms: ['Ductile, SQLite, chains at once, no-op'],
        base: 'Ductile, SQLite, no-op',
      }),
      rate({
        id: '19a',
        title: 'foreach over 100 thousand elements, no-op',
        arms: ['Ductile, SQLite, foreach, no-op'],
        base: 'Ductile, SQLite, enqueue to end, 32 slots',
        goal: 0.5,
      }),
      foreach('19b', 'the same, longest time without a turn of the event loop', 'longestMs', 'ms'),
      foreach('19c', 'the same, resident late in it over resident early in it', 'growth', '×'),
      perStep({
        id: '20a',
        title: 'synchronous request of one step, python, p50',
        arms: ['Ductile, SQLite, synchronous request, python'],
        base: 'Ductile, python, one after the other',
        goal: 1.3,
      }),
      perStep({
        id: '20b',
        title: 'the same with a plugin that starts in a millisecond (measured; no goal)',
        arms: ['Ductile, SQLite, synchronous request, static'],
        base: 'Ductile, static, one after the other',
      }),
    ],
  },
  {
    title: 'Prewarmed plugins, from request to end on an idle system, through the host',
    rows: [prewarmed('21a', 'python', 0.25), prewarmed('21b', 'node', 0.35)],
  },
  {
    title: 'The scheduler with 10 thousand schedules: SQLite, on the disk before it is answered',
    rows: [
      tick('26a', 'one tick with 100 due, of the event loop', 'loopMs', 1),
      tick('26b', 'the same, without a turn of it', 'longestMs', 1),
      {
        ...tick('26c', 'one tick with 5 thousand due (measured; no goal)', 'longestMs'),
        arms: ['Ductile, SQLite, tick, half due'],
      },
    ],
  },
  tenantTable,
  signalTable,
  ...webhookTables,
  mcpTable,
  dashboardTable,
  ...largeTables,
  {
    title: 'Memory of the engine: SQLite, a process for each job',
    rows: [resident('23a', 20, 2), resident('23b', 60, 20)],
  },
  startTable,
];

function rate(row: Omit<Row, 'metric' | 'unit' | 'better'>): Row {
  return { ...row, metric: 'rate', unit: 'jobs/s', better: 'higher' };
}

function request(row: Pick<Row, 'id' | 'title' | 'base' | 'goal'>): Row {
  return rate({ ...row, arms: ['Ductile, SQLite, POST, 64 connections'] });
}

function perStep(row: Omit<Row, 'metric' | 'unit' | 'better'>): Row {
  return { ...row, metric: 'p50Ms', unit: 'ms', better: 'lower' };
}

function foreach(id: string, title: string, metric: string, unit: string): Row {
  return {
    id,
    title,
    arms: ['Ductile, SQLite, foreach, no-op'],
    base: 'what a foreach may cost',
    metric,
    unit,
    goal: 1,
    better: 'lower',
  };
}

function tick(id: string, title: string, metric: string, goal?: number): Row {
  return {
    id,
    title,
    arms: ['Ductile, SQLite, tick'],
    base: 'the time that a tick may take',
    metric,
    unit: 'ms',
    ...(goal === undefined ? {} : { goal }),
    better: 'lower',
  };
}

function resident(id: string, thousands: number, baseThousands: number): Row {
  return {
    id,
    title: `resident after ${thousands} thousand jobs`,
    arms: [`Ductile, SQLite, after ${thousands}k jobs`],
    base: `Ductile, SQLite, after ${baseThousands}k jobs`,
    metric: 'residentMb',
    unit: 'MB',
    goal: 1.1,
    better: 'lower',
    reps: 3,
  };
}

function prewarmed(id: string, plugin: string, goal: number): Row {
  return {
    id,
    title: `${plugin} plugin, p50`,
    arms: [`Ductile, ${plugin}, prewarmed`],
    base: `Ductile, ${plugin}, cold`,
    metric: 'p50Ms',
    unit: 'ms',
    goal,
    better: 'lower',
  };
}
