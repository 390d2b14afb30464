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

export interface PrewarmTarget {
  /** Covers everything that defines the process: spec, plugin files, configuration. */
  readonly fingerprint: string;
  readonly spec: ProcessSpec;
  readonly count: number;
}

/** Processes that start ahead of their request, by plugin instance and tenant. */
export interface PrewarmPool {
  /**
   * Sets the processes that wait under this key. Processes with another fingerprint end; a count of
   * 0 ends all.
   */
  setTarget(key: string, want: PrewarmTarget): void;
  /** Ends all processes under this key. */
  drop(key: string): void;
  /**
   * Returns a waiting process, or undefined: then start one. Its replacement starts after `ended`,
   * or soon: an immediate start would compete for the CPU with the process that just got its
   * request.
   */
  claim(key: string, fingerprint: string): HeldProcess | undefined;
  /** Reports the end of a process of one of these keys. */
  ended(): void;
  stop(): void;
}

interface WaitingProcess {
  readonly held: HeldProcess;
  readonly since: number;
  readonly ageTimer: NodeJS.Timeout;
}

interface PrewarmGroup {
  readonly key: string;
  want: PrewarmTarget;
  waiting: WaitingProcess[];
  /** Consecutive processes that ended before they were used. */
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
  readonly #shelves = new Map<string, PrewarmGroup>();
  #fillDue = false;
  #refillTimer: NodeJS.Timeout | undefined;

  constructor({ host, log, processesMax, ageMs }: PrewarmOptions) {
    this.#host = host;
    this.#log = log;
    this.#processesMax = processesMax ?? limits.prewarmProcessesMax;
    this.#ageMs = ageMs ?? limits.prewarmAgeMs;
  }

  setTarget(key: string, want: PrewarmTarget): void {
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

  claim(key: string, fingerprint: string): HeldProcess | undefined {
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

  /** In a later turn of the event loop, after the current work. */
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

  #start(shelf: PrewarmGroup): void {
    const held = this.#host.hold(shelf.want.spec);
    const ageTimer = setTimeout(() => {
      if (!remove(shelf, waiting)) return;
      shelf.failures = 0;
      held.discard();
      this.#fillSoon();
    }, this.#ageMs);
    ageTimer.unref();
    const waiting: WaitingProcess = { held, since: monotonicMs(), ageTimer };
    shelf.waiting.push(waiting);
    void held.spoiled.then(() => {
      if (remove(shelf, waiting)) this.#retryLater(shelf);
    });
  }

  /** Processes that die together, as with the spawner, count as one failure. */
  #retryLater(shelf: PrewarmGroup): void {
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

/** Returns false if it was claimed, dropped or spoiled before. */
function remove(shelf: PrewarmGroup, waiting: WaitingProcess): boolean {
  const at = shelf.waiting.indexOf(waiting);
  if (at === -1) return false;
  shelf.waiting.splice(at, 1);
  clearTimeout(waiting.ageTimer);
  return true;
}

function discard({ held, ageTimer }: WaitingProcess): void {
  clearTimeout(ageTimer);
  held.discard();
}

function clear(shelf: PrewarmGroup): void {
  clearTimeout(shelf.retryTimer);
  for (const waiting of shelf.waiting.splice(0)) discard(waiting);
  shelf.want = { ...shelf.want, count: 0 };
}
