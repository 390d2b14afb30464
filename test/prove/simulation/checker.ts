/** Checks the invariants after every commit, using only the rows and the processes. */
import { createHash } from 'node:crypto';
import { AttemptBook, type Running } from './attempts.ts';
import { JobBook } from './jobs.ts';
import { ProcessBook } from './processes.ts';
import { RunBook } from './runs.ts';
import { ScheduleBook } from './schedules.ts';
import type { Change, Row, WatchedTable } from './rows.ts';
import type { Reply } from './spawner.ts';

/** A committed transaction: its changes, and its time by the database's clock. */
export interface Commit {
  readonly nowMs: number;
  readonly changes: readonly Change[];
  /** The process that requested it; undefined once it is gone. */
  readonly by: string | undefined;
  /** The time of the request. */
  readonly askedAt: number;
  /** The rows that it added to a table. */
  added(table: WatchedTable): readonly Row[];
}

/** Reports a violation. */
export type Accuse = (invariant: string, what: string) => void;

export interface CheckerOptions {
  /** A process may be presumed dead only because of its silence. */
  readonly isShared: boolean;
  readonly isLeaving: (processId: string) => boolean;
}

export class Checker {
  readonly attempts: AttemptBook;
  readonly jobs: JobBook;
  readonly runs: RunBook;
  readonly schedules: ScheduleBook;
  readonly processes: ProcessBook;
  /** The first promise that was broken. */
  fault: string | undefined;
  commits = 0;
  readonly #trace = createHash('sha256');
  readonly #names = new Map<string, number>();

  constructor(options: CheckerOptions) {
    const accuse: Accuse = (invariant, what) => {
      this.fault ??= `${invariant}: ${what}`;
    };
    this.attempts = new AttemptBook(accuse);
    this.jobs = new JobBook(accuse, this.attempts);
    this.runs = new RunBook(accuse, this.jobs);
    this.schedules = new ScheduleBook(accuse);
    this.processes = new ProcessBook(accuse, this.jobs, options);
  }

  committed(changes: readonly Change[], how: Pick<Commit, 'nowMs' | 'by' | 'askedAt'>): void {
    const { nowMs } = how;
    this.commits += 1;
    const commit = {
      ...how,
      changes,
      added: (table: WatchedTable) =>
        changes.flatMap((one): readonly Row[] =>
          one.table === table && one.before === undefined && one.after ? [one.after] : [],
        ),
    };
    for (const change of changes) {
      this.#note(change, nowMs);
      this.jobs.saw(change, commit);
      this.runs.saw(change);
      this.processes.saw(change, commit);
      this.schedules.saw(change, nowMs);
    }
    this.jobs.settled(commit);
  }

  started(running: Running, plugin: string): void {
    this.attempts.started(running, plugin);
  }

  ended(running: Running): void {
    this.attempts.ended(running);
  }

  promised(running: Running, reply: Reply): void {
    this.attempts.promised(running, reply);
  }

  /** The same for the same seed. */
  get trace(): string {
    return this.#trace.copy().digest('hex');
  }

  /** Ids are numbered in the order of their first appearance, because they come from real time. */
  #note({ table, before, after }: Change, nowMs: number): void {
    const row = after ?? before ?? {};
    const id = String(row['id'] ?? row['job_id'] ?? row['plugin_name']);
    let name = this.#names.get(id);
    if (name === undefined) this.#names.set(id, (name = this.#names.size));
    const how = before === undefined ? '+' : after === undefined ? '-' : '~';
    this.#trace.update(`${nowMs} ${how}${table} ${name} ${row['status']} ${row['attempt']}\n`);
  }
}
