/** The rules of processes: when and by which process one may be reaped, and what remains of it. */
import type { Accuse, CheckerOptions, Commit } from './checker.ts';
import type { JobBook } from './jobs.ts';
import type { Change, Row } from './rows.ts';
import { REAP_AFTER_MS } from './world-setup.ts';

export class ProcessBook {
  readonly #accuse: Accuse;
  readonly #jobs: JobBook;
  readonly #options: CheckerOptions;
  /** The time since when the heartbeats of each were never too far apart. */
  readonly #unbroken = new Map<string, number>();

  constructor(accuse: Accuse, jobs: JobBook, options: CheckerOptions) {
    this.#accuse = accuse;
    this.#jobs = jobs;
    this.#options = options;
  }

  saw({ table, before, after }: Change, commit: Commit): void {
    if (table !== 'processes') return;
    if (after !== undefined) this.#beat(before, String(after['id']), commit.nowMs);
    else if (before !== undefined) this.#forgotten(before, commit);
  }

  #beat(before: Row | undefined, id: string, nowMs: number): void {
    if (before === undefined || nowMs - beatOf(before) >= REAP_AFTER_MS) {
      this.#unbroken.set(id, nowMs);
    }
  }

  #forgotten(process: Row, { nowMs, by, askedAt }: Commit): void {
    const id = String(process['id']);
    const held = this.#jobs.countHeld(id);
    if (held > 0) this.#accuse('I12', `process ${id} was forgotten with ${held} jobs`);
    if (!this.#options.isShared || this.#options.isLeaving(id)) return;
    const silentMs = nowMs - beatOf(process);
    if (silentMs < REAP_AFTER_MS) {
      this.#accuse('I5', `process ${id} was taken for dead after ${silentMs} ms`);
    }
    // After an outage, every process looks dead to the first one that comes back. A process that
    // became silent only after its request was healthy for long enough.
    const wellMs = askedAt - (this.#unbroken.get(by ?? '') ?? askedAt);
    if (wellMs >= 0 && wellMs < REAP_AFTER_MS) {
      this.#accuse('I5', `process ${id} was taken for dead by one that was well for ${wellMs} ms`);
    }
  }
}

function beatOf(process: Row): number {
  return Date.parse(String(process['last_heartbeat_at']));
}
