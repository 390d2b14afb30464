import { DuctileError } from '../../src/base/errors.ts';
import type { JsonOutput } from '../../src/operation/define.ts';
import type { OperationInput } from '../../src/cli/call-operation.ts';
import type { ResultRow } from '../../src/cli/print.ts';
import { rowOf, rowsOf } from '../../src/cli/view-parts.ts';
import { detailCalls } from './details.ts';
import type { DetailResult, Overview, ViewPart, Ref, ViewName } from './state.ts';

export type Call = (name: string, input: OperationInput) => Promise<JsonOutput>;

const ROWS = 100;

/** Reads the rows of one view; if that is forbidden, returns the reason. */
export async function readView(view: ViewName, call: Call): Promise<ViewPart> {
  try {
    return { rows: await readers[view](call) };
  } catch (thrown) {
    if (isForbidden(thrown)) return { rows: [], problem: thrown.message };
    throw thrown;
  }
}

export async function readOverview(call: Call): Promise<Overview> {
  const [queue, summary, breakers, incidents] = await Promise.all([
    unlessForbidden(call('analytics.queue', {})),
    unlessForbidden(call('analytics.summary', { window: '1h' })),
    unlessForbidden(call('system.breaker', { limit: 1 })),
    unlessForbidden(call('incident.list', { limit: ROWS })),
  ]);
  const stats = rowOf(summary?.['stats']);
  const failed = failureStatuses.reduce((sum, status) => sum + Number(stats[status] ?? 0), 0);
  const open = rowsOf(breakers?.['breakers']).filter(({ state }) => state !== 'closed');
  return {
    running: queue && Number(queue['running']),
    queued: queue && Number(queue['ready']) + Number(queue['delayed']),
    failed: summary && failed,
    breakers: breakers && open.length,
    incidents: incidents && rowsOf(incidents['incidents']).length,
  };
}

export function readDetails(ref: Ref, call: Call): Promise<readonly DetailResult[]> {
  return Promise.all(
    detailCalls(ref).map(async ([name, input]) => ({ name, output: await call(name, input) })),
  );
}

export const failureStatuses: readonly string[] = ['failed', 'timed_out', 'crashed'];

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
      unlessForbidden(call('system.breaker', { limit: 1 })),
    ]);
    return joinLanes(rowsOf(queue['lanes']), rowsOf(breakers?.['breakers']));
  },
};

/** Puts running rows first. They may be older than the newest page, or have ended between two reads. */
function runningFirst(
  running: readonly ResultRow[],
  newest: readonly ResultRow[],
  id: string,
): ResultRow[] {
  const fresh = new Map(newest.map((row) => [row[id], row]));
  const first = running
    .map((row) => fresh.get(row[id]) ?? row)
    .filter(({ status }) => status === 'running');
  const seenIds = new Set(first.map((row) => row[id]));
  return [...first, ...newest.filter((row) => !seenIds.has(row[id]))];
}

const worst = ['open', 'half_open', 'closed'];

/**
 * Returns a row for each plugin that has queued or running jobs or a breaker, with the worst state of
 * its breakers.
 */
function joinLanes(lanes: readonly ResultRow[], breakers: readonly ResultRow[]): ResultRow[] {
  const idle = { ready: 0, delayed: 0, running: 0, breaker: 'closed' };
  const rowsByPlugin = new Map<unknown, ResultRow>(
    lanes.map((lane) => [lane['plugin'], { ...idle, ...lane }]),
  );
  for (const { plugin, state } of breakers) {
    const row = rowsByPlugin.get(plugin) ?? { ...idle, plugin };
    const isWorse = worst.indexOf(String(state)) < worst.indexOf(String(row['breaker']));
    rowsByPlugin.set(plugin, isWorse ? { ...row, breaker: state } : row);
  }
  return [...rowsByPlugin.values()];
}

/** Returns undefined if the caller may not read the result. */
async function unlessForbidden(call: Promise<JsonOutput>): Promise<JsonOutput | undefined> {
  try {
    return await call;
  } catch (thrown) {
    if (isForbidden(thrown)) return undefined;
    throw thrown;
  }
}

function isForbidden(thrown: unknown): thrown is DuctileError {
  return thrown instanceof DuctileError && thrown.code === 'FORBIDDEN';
}
