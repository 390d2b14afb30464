import { monotonicMs } from '../base/clock.ts';
import { limits } from '../base/limits.ts';
import type { HostLog } from './spawner-link.ts';
import type { HeldProcess, Host, ProcessSpec } from './process.ts';

export interface PrewarmOptions {
  readonly host: Pick<Host, 'hold'>;
  readonly log: HostLog;
  readonly processesMax?: number;
  readonly ageMs?: number;
}

export interface PrewarmWant {
  /** Of everything that makes a process what it is: spec, plugin files, configuration. */
  readonly fingerprint: string;
  readonly spec: ProcessSpec;
  readonly count: number;
}

/** Processes that were started ahead of their request, by plugin instance (and tenant). */
export interface PrewarmPool {
  /** Says what shall wait under this key; what has another fingerprint goes, a count of 0 clears. */
  keep(key: string, want: PrewarmWant): void;
  /** Nothing shall wait under this key any more. */
  drop(key: string): void;
  /**
   * One that waits, or undefined: then run it cold. Its place is filled when something has `ended`, or
   * soon: what is started at once takes the processor from the one that has just got its request.
   */
  take(key: string, fingerprint: string): HeldProcess | undefined;
  /** A process of one of these keys has ended. */
  ended(): void;
  stop(): void;
}

interface Waiting {
  readonly held: HeldProcess;
  readonly since: number;
  readonly ageTimer: NodeJS.Timeout;
}

interface Shelf {
  readonly key: string;
  want: PrewarmWant;
  waiting: Waiting[];
  /** In a row that did not stay alive until somebody wanted them. */
  failures: number;
  retryTimer: NodeJS.Timeout | undefined;
}

export function makePrewarmPool(options: PrewarmOptions): PrewarmPool {
  return new Pool(options);
}

class Pool implements PrewarmPool {
  readonly #host: Pick<Host, 'hold'>;
  readonly #log: HostLog;
  readonly #processesMax: number;
  readonly #ageMs: number;
  readonly #shelves = new Map<string, Shelf>();
  #fillDue = false;
  #refillTimer: NodeJS.Timeout | undefined;

  constructor({ host, log, processesMax, ageMs }: PrewarmOptions) {
    this.#host = host;
    this.#log = log;
    this.#processesMax = processesMax ?? limits.prewarmProcessesMax;
    this.#ageMs = ageMs ?? limits.prewarmAgeMs;
  }

  keep(key: string, want: PrewarmWant): void {
    const shelf = this.#shelves.get(key);
    if (shelf !== undefined && shelf.want.fingerprint === want.fingerprint) {
      const isSettled = shelf.want.count === want.count;
      shelf.want = want;
      if (isSettled) return;
      for (const surplus of shelf.waiting.splice(want.count)) discard(surplus);
    } else {
      if (shelf !== undefined) clear(shelf);
      this.#shelves.set(key, { key, want, waiting: [], failures: 0, retryTimer: undefined });
    }
    this.#fillSoon();
  }

  drop(key: string): void {
    const shelf = this.#shelves.get(key);
    if (shelf === undefined) return;
    clear(shelf);
    this.#shelves.delete(key);
    this.#fillSoon();
  }

  take(key: string, fingerprint: string): HeldProcess | undefined {
    const shelf = this.#shelves.get(key);
    if (shelf === undefined || shelf.want.fingerprint !== fingerprint) return undefined;
    this.#refillTimer ??= setTimeout(() => this.#fillSoon(), limits.prewarmRefillMs).unref();
    for (let next = shelf.waiting.shift(); next !== undefined; next = shelf.waiting.shift()) {
      shelf.failures = 0;
      if (monotonicMs() - next.since < this.#ageMs) {
        clearTimeout(next.ageTimer);
        return next.held;
      }
      discard(next);
    }
    return undefined;
  }

  ended(): void {
    if (this.#refillTimer !== undefined) this.#fillSoon();
  }

  stop(): void {
    clearTimeout(this.#refillTimer);
    for (const shelf of this.#shelves.values()) clear(shelf);
    this.#shelves.clear();
  }

  /** In a later turn, so that whatever this one is about comes first. */
  #fillSoon(): void {
    clearTimeout(this.#refillTimer);
    this.#refillTimer = undefined;
    if (this.#fillDue) return;
    this.#fillDue = true;
    setImmediate(() => {
      this.#fillDue = false;
      this.#fill();
    });
  }

  #fill(): void {
    const shelves = [...this.#shelves.values()];
    let room = shelves.reduce((left, { waiting }) => left - waiting.length, this.#processesMax);
    for (let started = -1; started !== 0;) {
      started = 0;
      for (const shelf of shelves) {
        if (room <= 0 || shelf.retryTimer !== undefined) continue;
        if (shelf.waiting.length >= shelf.want.count) continue;
        this.#start(shelf);
        started += 1;
        room -= 1;
      }
    }
  }

  #start(shelf: Shelf): void {
    const held = this.#host.hold(shelf.want.spec);
    const ageTimer = setTimeout(() => {
      if (!remove(shelf, waiting)) return;
      shelf.failures = 0;
      held.discard();
      this.#fillSoon();
    }, this.#ageMs);
    ageTimer.unref();
    const waiting: Waiting = { held, since: monotonicMs(), ageTimer };
    shelf.waiting.push(waiting);
    void held.spoiled.then(() => {
      if (remove(shelf, waiting)) this.#retryLater(shelf);
    });
  }

  /** What is lost together, as when the spawner dies, is one failure. */
  #retryLater(shelf: Shelf): void {
    if (shelf.retryTimer !== undefined) return;
    shelf.failures += 1;
    const delayMs = Math.min(
      limits.prewarmBackoffMs * 2 ** (shelf.failures - 1),
      limits.prewarmBackoffMsMax,
    );
    const { key, failures } = shelf;
    this.#log('warn', 'a prewarmed process did not wait for its request', { key, failures });
    shelf.retryTimer = setTimeout(() => {
      shelf.retryTimer = undefined;
      this.#fillSoon();
    }, delayMs);
    shelf.retryTimer.unref();
    this.#fillSoon();
  }
}

/** False when it is no longer there: taken, dropped or spoiled before. */
function remove(shelf: Shelf, waiting: Waiting): boolean {
  const at = shelf.waiting.indexOf(waiting);
  if (at === -1) return false;
  shelf.waiting.splice(at, 1);
  clearTimeout(waiting.ageTimer);
  return true;
}

function discard({ held, ageTimer }: Waiting): void {
  clearTimeout(ageTimer);
  held.discard();
}

function clear(shelf: Shelf): void {
  clearTimeout(shelf.retryTimer);
  for (const waiting of shelf.waiting.splice(0)) discard(waiting);
  shelf.want = { ...shelf.want, count: 0 };
}
