/** The rules of jobs: I1 to I8, I11 and I13. */
import type { AttemptBook } from './attempts.ts';
import type { Accuse, Commit } from './checker.ts';
import type { Change, Row } from './rows.ts';
import { CRASHES_MAX, DEDUPE_TTL_MS, parallelism, RETENTION_MS } from './world-setup.ts';

const OPEN = new Set<unknown>(['queued', 'running']);

export class JobBook {
  /** Every job so far, with its current or last row. */
  readonly all = new Map<string, Row>();
  /** The observed transitions, each with its cause. */
  readonly moves = new Set<string>();
  readonly #accuse: Accuse;
  readonly #attempts: AttemptBook;
  readonly #running = new Map<string, Row>();
  readonly #tokens = new Set<string>();
  readonly #logged = new Set<string>();
  readonly #keys = new Map<string, Row>();
  #counted = 0;
  #openCount = 0;

  constructor(accuse: Accuse, attempts: AttemptBook) {
    this.#accuse = accuse;
    this.#attempts = attempts;
  }

  get open(): readonly Row[] {
    return [...this.all.values()].filter(({ status }) => OPEN.has(status));
  }

  get openCount(): number {
    return this.#openCount;
  }

  /** The number of jobs that a process holds. */
  countHeld(processId: string): number {
    return [...this.#running.values()].filter((job) => job['claimed_by'] === processId).length;
  }

  /** A client learned that the job is accepted. */
  acknowledged(id: string): void {
    if (!this.all.has(id)) this.#accuse('I1', `job ${id} was acknowledged and is not there`);
  }

  saw(change: Change, commit: Commit): void {
    const { table, before, after } = change;
    if (table === 'job_queue') this.#sawJob(before, after, commit);
    if (table === 'job_log') this.#sawLog(before, after, commit.nowMs);
    if (table === 'signals') this.#sawSignal(before, after, commit);
  }

  /** After a commit: every logged attempt must come with a change of its job. */
  settled(commit: Commit): void {
    this.#checkCounter(commit);
    for (const log of commit.added('job_log')) {
      const moved = commit.changes.some(
        ({ table, before, after }) =>
          table === 'job_queue' && before?.['id'] === log['job_id'] && after !== undefined,
      );
      if (!moved) this.#accuse('I3', `attempt ${keyOf(log)} was logged and did not end`);
    }
  }

  #sawJob(before: Row | undefined, after: Row | undefined, commit: Commit): void {
    if (after === undefined) {
      this.#deleted(before ?? {}, 'completed_at', commit.nowMs);
      return;
    }
    if (before === undefined) this.#added(after, commit.nowMs);
    else this.#moved(before, after, commit);
    this.#openCount += Number(OPEN.has(after['status'])) - Number(OPEN.has(before?.['status']));
    this.all.set(String(after['id']), after);
    if (after['status'] === 'running') this.#running.set(String(after['id']), after);
    else this.#running.delete(String(after['id']));
  }

  #added(job: Row, nowMs: number): void {
    if (this.all.has(String(job['id']))) this.#accuse('I7', `job ${job['id']} was added twice`);
    if (job['dedupe_key'] === null) return;
    const key = `${job['dedupe_key']} of ${job['plugin']}`;
    const other = this.#keys.get(key);
    const last = other && this.all.get(String(other['id']));
    if (last !== undefined) {
      const endedMs = Date.parse(String(last['completed_at']));
      // A deliberate repetition is not blocked by its own success.
      const isAgain = job['retry_of'] === last['id'];
      const isFresh = last['status'] === 'succeeded' && nowMs - endedMs < DEDUPE_TTL_MS;
      const blocks = isFresh && !isAgain;
      if (OPEN.has(last['status']) || blocks) {
        const names = `${last['id']} (${last['status']}) and ${job['id']}`;
        this.#accuse('I7', `the key ${key} has jobs ${names}`);
      }
    }
    this.#keys.set(key, job);
  }

  #moved(before: Row, after: Row, commit: Commit): void {
    const { id, plugin } = after;
    const [from, to] = [before['status'], after['status']];
    const name = `${plugin} ${id}`;
    if (!OPEN.has(from)) {
      if (from !== to || before['completed_at'] !== after['completed_at']) {
        this.#accuse('I2', `${name} went from ${from} to ${to}`);
      }
      return;
    }
    if (from === 'queued' && to === 'running') this.#claimed(before, after, commit.nowMs);
    if (from === 'queued' && to === 'queued') this.#promoted(before, after, commit.nowMs);
    if (from === 'running') this.#left(before, after, commit);
    if (from !== to && from !== 'running') this.moves.add(`${from} ${to}`);
    if (Number(after['retry_count']) > Number(after['max_attempts'])) {
      this.#accuse('I4', `${name} failed more often than it may`);
    }
    if (Number(after['crash_count']) > CRASHES_MAX) {
      this.#accuse('I4', `${name} crashed more often than it may`);
    }
  }

  #claimed(before: Row, job: Row, nowMs: number): void {
    const { id, plugin, claim_token: token } = job;
    const name = `${plugin} ${id}`;
    const key = `${id} ${token}`;
    if (token === null || this.#tokens.has(key)) this.#accuse('I3', `${name} has no new token`);
    this.#tokens.add(key);
    if (job['cancel_requested_at'] !== null) this.#accuse('I13', `${name} was to be cancelled`);
    if (before['attempt'] !== job['attempt']) this.#accuse('I4', `${name} lost count`);
    const dueAt = before['next_retry_at'];
    if (dueAt !== null) this.#accuse('I8', `${name} was claimed before it was due`);
    const leaseMs = Date.parse(String(job['claim_expires_at'])) - nowMs;
    if (!(leaseMs > 20_000)) this.#accuse('I5', `the claim of ${name} lasts ${leaseMs} ms`);
    const others = [...this.#running.values()].filter((one) => one['id'] !== id);
    const alike = others.filter((one) => one['plugin'] === plugin).length;
    if (alike >= (parallelism[String(plugin)] ?? 0)) {
      this.#accuse('I8', `${alike + 1} jobs of ${plugin} run at once`);
    }
    const line = job['dependency_key'];
    if (line !== null && others.some((one) => one['dependency_key'] === line)) {
      this.#accuse('I8', `two jobs of the line ${line} run at once`);
    }
    const dedupe = job['dedupe_key'];
    const isAlike = (one: Row): boolean => one['dedupe_key'] === dedupe && one['plugin'] === plugin;
    if (dedupe !== null && others.some(isAlike)) {
      this.#accuse('I8', `two jobs of the key ${dedupe} run at once`);
    }
  }

  #promoted(before: Row, after: Row, nowMs: number): void {
    const dueAt = before['next_retry_at'];
    if (dueAt === null || dueAt === undefined || after['next_retry_at'] !== null) return;
    if (Date.parse(String(dueAt)) > nowMs) {
      this.#accuse('I8', `job ${after['id']} is ready before it is due`);
    }
  }

  /** A running job changed: its attempt ended or continues. */
  #left(before: Row, after: Row, commit: Commit): void {
    const { id, plugin, status } = after;
    const name = `${plugin} ${id}`;
    if (status === 'running') {
      if (before['claim_token'] !== after['claim_token']) {
        this.#accuse('I5', `the claim of ${name} was given to somebody else`);
      }
      return;
    }
    const logs = commit.added('job_log').filter((log) => log['job_id'] === id);
    const [log] = logs;
    if (log === undefined || logs.length > 1) {
      this.#accuse('I3', `${name} ended an attempt with ${logs.length} rows in the log`);
      return;
    }
    this.moves.add(`running ${status} ${log['cause']}`);
    this.#verify(before, after, log, commit);
  }

  #verify(before: Row, after: Row, log: Row, commit: Commit): void {
    const { id, plugin, status } = after;
    const name = `${plugin} ${id}`;
    if (log['claim_token'] !== before['claim_token'] || log['attempt'] !== before['attempt']) {
      this.#accuse('I3', `${name} was ended by somebody who did not hold it`);
    }
    const grown = Number(after['attempt']) - Number(before['attempt']);
    if (grown !== (status === 'queued' ? 1 : 0)) this.#accuse('I4', `${name} lost count`);
    if (status === 'queued' && before['cancel_requested_at'] !== null) {
      this.#accuse('I13', `${name} was to be cancelled and is queued again`);
    }
    const charged = Number(after['retry_count']) - Number(before['retry_count']);
    const isFailure = log['status'] === 'failed' || log['status'] === 'timed_out';
    if (charged !== (isFailure ? 1 : 0)) {
      this.#accuse('I4', `${name} was charged ${charged} for ${log['status']}`);
    }
    if (log['cause'] === 'claim_expired') {
      const leftMs = Date.parse(String(before['claim_expires_at'])) - commit.nowMs;
      if (leftMs > 0) this.#accuse('I5', `the claim of ${name} was taken ${leftMs} ms early`);
    }
    if ((log['status'] === 'succeeded') !== (status === 'succeeded')) {
      this.#accuse('I3', `${name} is ${status}, its attempt ${log['status']}`);
    }
    if (status === 'succeeded') this.#succeeded(before, commit);
  }

  /** All consequences of a success are in the same commit. */
  #succeeded(job: Row, commit: Commit): void {
    const { id, plugin } = job;
    const promise = this.#attempts.promiseOf(String(id), Number(job['attempt']));
    if (promise === undefined) {
      this.#accuse('I3', `${plugin} ${id} succeeded, and no process of it did`);
      return;
    }
    const signals = commit
      .added('signals')
      .filter((signal) => signal['job_id'] === id && Number(signal['event_index']) >= 0);
    const causes = new Set(signals.map((signal) => signal['id']));
    const children = commit
      .added('job_queue')
      .filter((one) => causes.has(one['source_event_id'] ?? ''));
    if (signals.length !== promise.events || children.length !== promise.events) {
      const came = `${signals.length} signals and ${children.length} jobs`;
      this.#accuse('I6', `${plugin} ${id} emitted ${promise.events}, with it came ${came}`);
    }
  }

  #sawLog(before: Row | undefined, after: Row | undefined, nowMs: number): void {
    if (before !== undefined && after !== undefined) {
      this.#accuse('I11', `the log of ${keyOf(before)} was changed`);
    } else if (before !== undefined) {
      this.#deleted(before, 'completed_at', nowMs);
    } else if (after !== undefined) {
      if (this.#logged.has(keyOf(after))) {
        this.#accuse('I3', `attempt ${keyOf(after)} ended twice`);
      }
      this.#logged.add(keyOf(after));
    }
  }

  #sawSignal(before: Row | undefined, after: Row | undefined, commit: Commit): void {
    if (before !== undefined && after !== undefined) {
      this.#accuse('I11', `the signal ${before['id']} was changed`);
    } else if (before !== undefined) {
      this.#deleted(before, 'inserted_at', commit.nowMs);
    } else if (
      after !== undefined &&
      after['job_id'] !== null &&
      Number(after['event_index']) >= 0
    ) {
      const isCaused = commit
        .added('job_log')
        .some((log) => log['job_id'] === after['job_id'] && log['status'] === 'succeeded');
      if (!isCaused) this.#accuse('I6', `a signal of ${after['job_id']} came without its success`);
    }
  }

  /** The plugin `counter` counts its own successes in its state. */
  #checkCounter({ changes }: Commit): void {
    const successes = changes.filter(
      ({ table, before, after }) =>
        table === 'job_queue' &&
        after?.['plugin'] === 'counter' &&
        after['status'] === 'succeeded' &&
        before?.['status'] === 'running',
    ).length;
    const stateChange = changes.findLast(
      ({ table, after }) => table === 'plugin_state' && after?.['plugin_name'] === 'counter',
    );
    this.#counted += successes;
    if (stateChange === undefined && successes === 0) return;
    const { count } = JSON.parse(String(stateChange?.after?.['state'] ?? '{}')) as {
      count?: number;
    };
    if (count !== this.#counted) {
      this.#accuse('I6', `the counter says ${count} after ${this.#counted} successes`);
    }
  }

  #deleted(row: Row, at: 'completed_at' | 'inserted_at', nowMs: number): void {
    const endedMs = Date.parse(String(row[at]));
    if (!(nowMs - endedMs >= RETENTION_MS)) {
      this.#accuse('I1', `${row['id'] ?? keyOf(row)} was deleted, ${row['status']} at ${row[at]}`);
    }
  }
}

function keyOf(log: Row): string {
  return `${log['job_id']} ${log['attempt']}`;
}
