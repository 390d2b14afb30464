import { DuctileError } from '../../src/base/errors.ts';
import type { JsonOutput } from '../../src/operation/define.ts';
import type { OperationInput } from '../../src/cli/ask.ts';
import type { ResultRow } from '../../src/cli/print.ts';
import { rowOf, rowsOf } from '../../src/cli/view-parts.ts';
import { detailCalls } from './details.ts';
import type { Answer, Overview, Part, Ref, ViewName } from './state.ts';

/** Calls an operation. */
export type Call = (name: string, input: OperationInput) => Promise<JsonOutput>;

const ROWS = 100;

/** Reads the rows of one view; if that is forbidden, returns the reason. */
export async function lookAt(view: ViewName, call: Call): Promise<Part> {
  try {
    return { rows: await readers[view](call) };
  } catch (thrown) {
    if (isForbidden(thrown)) return { rows: [], problem: thrown.message };
    throw thrown;
  }
}

export async function lookOver(call: Call): Promise<Overview> {
  const [queue, summary, breakers, incidents] = await Promise.all([
    allowed(call('analytics.queue', {})),
    allowed(call('analytics.summary', { window: '1h' })),
    allowed(call('system.breaker', { limit: 1 })),
    allowed(call('incident.list', { limit: ROWS })),
  ]);
  const stats = rowOf(summary?.['stats']);
  const failed = badEnds.reduce((sum, status) => sum + Number(stats[status] ?? 0), 0);
  const open = rowsOf(breakers?.['breakers']).filter(({ state }) => state !== 'closed');
  return {
    running: queue && Number(queue['running']),
    queued: queue && Number(queue['ready']) + Number(queue['delayed']),
    failed: summary && failed,
    breakers: breakers && open.length,
    incidents: incidents && rowsOf(incidents['incidents']).length,
  };
}

export function lookInto(ref: Ref, call: Call): Promise<readonly Answer[]> {
  return Promise.all(
    detailCalls(ref).map(async ([name, input]) => ({ name, output: await call(name, input) })),
  );
}

/** Unsuccessful ends of attempts. */
export const badEnds: readonly string[] = ['failed', 'timed_out', 'crashed'];

const readers: Readonly<Record<ViewName, (call: Call) => Promise<readonly ResultRow[]>>> = {
  async jobs(call) {
    const [running, newest] = await Promise.all([
      call('job.list', { status: ['running'], limit: ROWS }),
      call('job.list', { limit: ROWS }),
    ]);
    return runningFirst(rowsOf(running['jobs']), rowsOf(newest['jobs']), 'job_id');
  },
  async runs(call) {
    const rows = rowsOf((await call('run.list', { limit: ROWS }))['runs']);
    return runningFirst(
      rows.filter(({ status }) => status === 'running'),
      rows,
      'run_id',
    );
  },
  async schedules(call) {
    const rows = rowsOf((await call('schedule.list', {}))['schedules']);
    // Timestamps sort as text; schedules without a due time come last.
    const dueOf = ({ next_start_at: due }: ResultRow): string =>
      typeof due === 'string' ? due : '~';
    return rows.toSorted((a, b) => (dueOf(a) < dueOf(b) ? -1 : 1));
  },
  async incidents(call) {
    const rows = rowsOf((await call('incident.list', { all: true, limit: ROWS }))['incidents']);
    const isOpen = ({ status }: ResultRow): boolean => status === 'open';
    return [...rows.filter(isOpen), ...rows.filter((row) => !isOpen(row))];
  },
  async plugins(call) {
    const [queue, breakers] = await Promise.all([
      call('analytics.queue', {}),
      allowed(call('system.breaker', { limit: 1 })),
    ]);
    return joinLanes(rowsOf(queue['lanes']), rowsOf(breakers?.['breakers']));
  },
};

/** Running jobs may be older than the newest page, and may have ended between two reads. */
function runningFirst(
  running: readonly ResultRow[],
  newest: readonly ResultRow[],
  id: string,
): ResultRow[] {
  const fresh = new Map(newest.map((row) => [row[id], row]));
  const first = running
    .map((row) => fresh.get(row[id]) ?? row)
    .filter(({ status }) => status === 'running');
  const known = new Set(first.map((row) => row[id]));
  return [...first, ...newest.filter((row) => !known.has(row[id]))];
}

const worst = ['open', 'half_open', 'closed'];

/**
 * Joins one row for each plugin that has work or a breaker; of several breakers the worst is shown.
 */
function joinLanes(lanes: readonly ResultRow[], breakers: readonly ResultRow[]): ResultRow[] {
  const idle = { ready: 0, delayed: 0, running: 0, breaker: 'closed' };
  const found = new Map<unknown, ResultRow>(
    lanes.map((lane) => [lane['plugin'], { ...idle, ...lane }]),
  );
  for (const { plugin, state } of breakers) {
    const row = found.get(plugin) ?? { ...idle, plugin };
    const isWorse = worst.indexOf(String(state)) < worst.indexOf(String(row['breaker']));
    found.set(plugin, isWorse ? { ...row, breaker: state } : row);
  }
  return [...found.values()];
}

/** Returns undefined if the caller may not read the result. */
async function allowed(asked: Promise<JsonOutput>): Promise<JsonOutput | undefined> {
  try {
    return await asked;
  } catch (thrown) {
    if (isForbidden(thrown)) return undefined;
    throw thrown;
  }
}

function isForbidden(thrown: unknown): thrown is DuctileError {
  return thrown instanceof DuctileError && thrown.code === 'FORBIDDEN';
}
