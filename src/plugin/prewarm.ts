import { monotonicMs } from '../base/clock.ts';
import { limits } from '../base/limits.ts';
import type { HostLog } from './spawner-link.ts';
import type { HeldProcess, Host, ProcessSpec } from './process.ts';

interface PrewarmOptions {
  readonly host: Pick<Host, 'hold'>;
  readonly log: HostLog;
  readonly processesMax?: number;
  readonly ageMs?: number;
}

/** Processes that wait under one key. */
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
  setTarget(key: string, target: PrewarmTarget): void;
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

/** The processes of one key. */
interface PrewarmGroup {
  readonly key: string;
  target: PrewarmTarget;
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
  readonly #groups = new Map<string, PrewarmGroup>();
  #fillDue = false;
  #refillTimer: NodeJS.Timeout | undefined;

  constructor({ host, log, processesMax, ageMs }: PrewarmOptions) {
    this.#host = host;
    this.#log = log;
    this.#processesMax = processesMax ?? limits.prewarmProcessesMax;
    this.#ageMs = ageMs ?? limits.prewarmAgeMs;
  }

  setTarget(key: string, target: PrewarmTarget): void {
    const group = this.#groups.get(key);
    if (group !== undefined && group.target.fingerprint === target.fingerprint) {
      const isUnchanged = group.target.count === target.count;
      group.target = target;
      if (isUnchanged) return;
      for (const surplus of group.waiting.splice(target.count)) discard(surplus);
    } else {
      if (group !== undefined) clear(group);
      this.#groups.set(key, { key, target, waiting: [], failures: 0, retryTimer: undefined });
    }
    this.#fillSoon();
  }

  drop(key: string): void {
    const group = this.#groups.get(key);
    if (group === undefined) return;
    clear(group);
    this.#groups.delete(key);
    this.#fillSoon();
  }

  claim(key: string, fingerprint: string): HeldProcess | undefined {
    const group = this.#groups.get(key);
    if (group === undefined || group.target.fingerprint !== fingerprint) return undefined;
    this.#refillTimer ??= setTimeout(() => this.#fillSoon(), limits.prewarmRefillMs).unref();
    for (let next = group.waiting.shift(); next !== undefined; next = group.waiting.shift()) {
      group.failures = 0;
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
    for (const group of this.#groups.values()) clear(group);
    this.#groups.clear();
  }

  /** Starts missing processes in a later turn of the event loop, after the current work. */
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
    const groups = [...this.#groups.values()];
    let free = groups.reduce((left, { waiting }) => left - waiting.length, this.#processesMax);
    for (let started = -1; started !== 0;) {
      started = 0;
      for (const group of groups) {
        if (free <= 0 || group.retryTimer !== undefined) continue;
        if (group.waiting.length >= group.target.count) continue;
        this.#start(group);
        started += 1;
        free -= 1;
      }
    }
  }

  #start(group: PrewarmGroup): void {
    const held = this.#host.hold(group.target.spec);
    const ageTimer = setTimeout(() => {
      if (!remove(group, waiting)) return;
      group.failures = 0;
      held.discard();
      this.#fillSoon();
    }, this.#ageMs);
    ageTimer.unref();
    const waiting: WaitingProcess = { held, since: monotonicMs(), ageTimer };
    group.waiting.push(waiting);
    void held.spoiled.then(() => {
      if (remove(group, waiting)) this.#retryLater(group);
    });
  }

  /** Processes that die together, as with the spawner, count as one failure. */
  #retryLater(group: PrewarmGroup): void {
    if (group.retryTimer !== undefined) return;
    group.failures += 1;
    const delayMs = Math.min(
      limits.prewarmBackoffMs * 2 ** (group.failures - 1),
      limits.prewarmBackoffMsMax,
    );
    const { key, failures } = group;
    this.#log('warn', 'a prewarmed process did not wait for its request', { key, failures });
    group.retryTimer = setTimeout(() => {
      group.retryTimer = undefined;
      this.#fillSoon();
    }, delayMs);
    group.retryTimer.unref();
    this.#fillSoon();
  }
}

/** Removes a waiting process. Returns false if it was claimed, dropped or spoiled before. */
function remove(group: PrewarmGroup, waiting: WaitingProcess): boolean {
  const at = group.waiting.indexOf(waiting);
  if (at === -1) return false;
  group.waiting.splice(at, 1);
  clearTimeout(waiting.ageTimer);
  return true;
}

function discard({ held, ageTimer }: WaitingProcess): void {
  clearTimeout(ageTimer);
  held.discard();
}

function clear(group: PrewarmGroup): void {
  clearTimeout(group.retryTimer);
  for (const waiting of group.waiting.splice(0)) discard(waiting);
  group.target = { ...group.target, count: 0 };
}
