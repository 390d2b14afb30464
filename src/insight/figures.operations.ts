/** The figures of a ledger that every client sees, read once for all of them. */
import type { Timestamp } from '../base/clock.ts';
import { limits } from '../base/limits.ts';
import type { DirectiveStatistics } from '../directive/types.ts';
import type { AttemptStatistics, QueueStatistics } from '../config/snapshot-types.ts';
import type { Incident } from './types.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { QueueCounts } from '../job/types.ts';
import { SharedFigure } from './shared-figure.service.ts';
import { bareLedger } from '../access/cover.operations.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

export interface QueueFigures extends QueueCounts {
  /** Jobs that ended as dead within the last day. */
  readonly dead: number;
  readonly lanes: QueueStatistics['lanes'];
}

/** The figures that monitors ask for. */
export interface WatchedFigures {
  readonly queue: QueueFigures;
  readonly openBreakers: number;
  readonly incidents: readonly Incident[];
  readonly now: Timestamp;
}

export interface WindowFigures {
  readonly attempts: AttemptStatistics;
  readonly directives: DirectiveStatistics;
}

export interface LedgerFigures {
  readonly queue: SharedFigure<QueueFigures>;
  readonly watched: SharedFigure<WatchedFigures>;
  /** The figures of the last `ms` milliseconds. */
  window(ms: number): SharedFigure<WindowFigures>;
}

const known = new WeakMap<Ledger, LedgerFigures>();

/** The figures of a ledger; they are kept as long as the ledger is open. */
export function figuresOf(asked: Ledger): LedgerFigures {
  // Each caller has a ledger of its own that masks rows; figures have none to mask.
  const ledger = bareLedger(asked);
  let figures = known.get(ledger);
  if (figures === undefined) known.set(ledger, (figures = makeFigures(ledger)));
  return figures;
}

function makeFigures(ledger: Ledger): LedgerFigures {
  const queue = new SharedFigure(
    () => readQueue(ledger),
    ({ ready, delayed, running }) => ready + delayed + running,
  );
  const watched = new SharedFigure<WatchedFigures>(
    async () => {
      const [{ value }, openBreakers, incidents, now] = await Promise.all([
        queue.get(),
        ledger.countOpenBreakers(),
        ledger.incidents({ isOpen: true, limit: limits.pageRowsMax }),
        ledger.now(),
      ]);
      return { queue: value, openBreakers, incidents, now };
    },
    () => 0,
  );
  const windows = new Map<number, SharedFigure<WindowFigures>>();
  return {
    queue,
    watched,
    window(ms) {
      const found = windows.get(ms) ?? makeWindow(ledger, ms);
      windows.delete(ms);
      windows.set(ms, found);
      for (const oldest of windows.keys()) {
        if (windows.size <= limits.figureWindowsMax) break;
        windows.delete(oldest);
      }
      return found;
    },
  };
}

function makeWindow(ledger: Ledger, ms: number): SharedFigure<WindowFigures> {
  return new SharedFigure<WindowFigures>(
    async () => ({
      attempts: await ledger.attemptStatistics(ms),
      directives: await ledger.directiveStatistics(ms),
    }),
    ({ attempts, directives }) =>
      attempts.groups.reduce((sum, group) => sum + group.attempts, directives.signals),
  );
}

async function readQueue(ledger: Ledger): Promise<QueueFigures> {
  const { lanes, dead, oldestReadyAt } = await ledger.queueStatistics(DAY_MS);
  const sum = (what: 'ready' | 'delayed' | 'running'): number =>
    lanes.reduce((total, lane) => total + lane[what], 0);
  return {
    lanes,
    dead,
    oldestReadyAt,
    ready: sum('ready'),
    delayed: sum('delayed'),
    running: sum('running'),
  };
}
