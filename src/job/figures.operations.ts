import { type Timestamp, toTimestamp } from '../base/clock.ts';
import { limits } from '../base/limits.ts';
import type { DirectiveStatistics } from '../directive/types.ts';
import type { AttemptStatistics, QueueStatistics } from '../insight/statistics.sql.ts';
import type { Incident } from '../insight/types.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { unmaskedLedger } from '../operation/visibility.ts';
import type { QueueCounts } from './types.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

export interface QueueFigures extends QueueCounts {
  /** Jobs that ended as dead within the last day. */
  readonly dead: number;
  readonly lanes: QueueStatistics['lanes'];
}

/** The figures that monitors read. */
interface WatchedFigures {
  readonly queue: QueueFigures;
  readonly openBreakers: number;
  readonly incidents: readonly Incident[];
  readonly now: Timestamp;
}

interface WindowFigures {
  readonly attempts: AttemptStatistics;
  readonly directives: DirectiveStatistics;
}

/** The figures of a ledger. All clients share one read. */
interface LedgerFigures {
  readonly queue: SharedFigure<QueueFigures>;
  readonly watched: SharedFigure<WatchedFigures>;
  /** The figures of the last `ms` milliseconds. */
  window(ms: number): SharedFigure<WindowFigures>;
}

const known = new WeakMap<Ledger, LedgerFigures>();

/** Returns the figures of a ledger. They are kept as long as the ledger is open. */
export function figuresOf(given: Ledger): LedgerFigures {
  // Each caller has its own view of the ledger, which masks rows. Figures contain no rows.
  const ledger = unmaskedLedger(given);
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
        ledger.breakers.countOpen(),
        ledger.incidents.list({ isOpen: true, limit: limits.pageRowsMax }),
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
      attempts: await ledger.attempts.readStatistics(ms),
      directives: await ledger.directives.readStatistics(ms),
    }),
    ({ attempts, directives }) =>
      attempts.groups.reduce((sum, group) => sum + group.attempts, directives.signals),
  );
}

async function readQueue(ledger: Ledger): Promise<QueueFigures> {
  const { lanes, dead, oldestReadyAt } = await ledger.jobs.readStatistics(DAY_MS);
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

/** A figure and when it was read. */
export interface Figure<T> {
  readonly value: T;
  readonly at: Timestamp;
}

interface CachedFigure<T> extends Figure<T> {
  readonly atMs: number;
  readonly tookMs: number;
}

/**
 * A figure that all clients share. Over few rows, it is read for each caller. Concurrent callers share
 * a read that starts after all of them have asked, so that each sees its own writes. Over many rows, it
 * is cached for a second, or for twenty times as long as the read took if that is longer.
 */
export class SharedFigure<T> {
  readonly #read: () => Promise<T>;
  readonly #rowsOf: (value: T) => number;
  #cached: CachedFigure<T> | undefined;
  #reading: Promise<CachedFigure<T>> | undefined;
  #next: Promise<CachedFigure<T>> | undefined;
  #hasFailed = false;
  #watchedUntilMs = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(read: () => Promise<T>, rowsOf: (value: T) => number) {
    this.#read = read;
    this.#rowsOf = rowsOf;
  }

  /** Reads the figure, or returns a fresh one. */
  async get(): Promise<Figure<T>> {
    const cached = this.#cached;
    if (cached === undefined || this.#rowsOf(cached.value) <= limits.figureRowsMax) {
      return await this.#readNext();
    }
    const ageMs = performance.now() - cached.atMs;
    if (ageMs <= Math.max(limits.figureMs, limits.figureRestFactor * cached.tookMs)) return cached;
    const reading = this.#readNext();
    if (ageMs > limits.figureStaleMs) return await reading;
    reading.catch(() => undefined);
    return cached;
  }

  /**
   * Returns the figure from memory, for monitors. Undefined while it is unknown. It is refreshed in
   * the background for a while after each call.
   */
  peek(): Figure<T> | undefined {
    this.#watchedUntilMs = performance.now() + limits.figureWatchedMs;
    this.#watch();
    const cached = this.#cached;
    if (cached === undefined || this.#hasFailed) return undefined;
    return performance.now() - cached.atMs > limits.figureStaleMs ? undefined : cached;
  }

  /** Reads the figure if it has never been read. */
  async prime(): Promise<void> {
    if (this.#cached === undefined) await this.#readNext();
  }

  #watch(): void {
    if (this.#timer !== undefined || this.#cached === undefined) return;
    const everyMs = Math.max(limits.figureEveryMs, limits.figureRestFactor * this.#cached.tookMs);
    this.#timer = setTimeout(() => {
      const reading = performance.now() < this.#watchedUntilMs ? this.#readNext() : undefined;
      const again = (): void => {
        this.#timer = undefined;
        if (reading !== undefined) this.#watch();
      };
      if (reading === undefined) again();
      else reading.then(again, again);
    }, everyMs).unref();
  }

  /** Starts a new read. A read in progress may not have seen the latest commit. */
  #readNext(): Promise<CachedFigure<T>> {
    if (this.#reading === undefined) return this.#readNow();
    this.#next ??= this.#reading.then(
      () => this.#readNow(),
      () => this.#readNow(),
    );
    return this.#next;
  }

  #readNow(): Promise<CachedFigure<T>> {
    this.#next = undefined;
    const reading = this.#measure().finally(() => {
      if (this.#reading === reading) this.#reading = undefined;
    });
    this.#reading = reading;
    return reading;
  }

  async #measure(): Promise<CachedFigure<T>> {
    const since = performance.now();
    const at = toTimestamp(Date.now());
    try {
      const value = await this.#read();
      const atMs = performance.now();
      this.#hasFailed = false;
      this.#cached = { value, at, atMs, tookMs: atMs - since };
      return this.#cached;
    } catch (error) {
      this.#hasFailed = true;
      throw error;
    }
  }
}
