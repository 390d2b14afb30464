/** The rules of runs and directives. */
import type { Accuse } from './checker.ts';
import type { JobBook } from './jobs.ts';
import type { Change, Row } from './rows.ts';

const OPEN = new Set<unknown>(['queued', 'running', 'requested', 'waiting']);

export class RunBook {
  readonly all = new Map<string, Row>();
  readonly #accuse: Accuse;
  readonly #jobs: JobBook;
  readonly #items = new Map<string, number>();

  constructor(accuse: Accuse, jobs: JobBook) {
    this.#accuse = accuse;
    this.#jobs = jobs;
  }

  get open(): readonly Row[] {
    return [...this.all.values()].filter(({ status }) => OPEN.has(status));
  }

  /** A client submitted the run, with this many items. */
  asked(id: string, items: number): void {
    this.#items.set(id, items);
  }

  acknowledged(id: string): void {
    if (!this.all.has(id)) this.#accuse('I1', `run ${id} was acknowledged and is not there`);
  }

  saw({ table, before, after }: Change): void {
    if (table !== 'pipeline_runs' && table !== 'run_steps' && table !== 'directives') return;
    const [from, to] = [before?.['status'], after?.['status']];
    if (before !== undefined && after !== undefined && !OPEN.has(from) && from !== to) {
      this.#accuse('I2', `${table} ${before['id']} went from ${from} to ${to}`);
    }
    if (table !== 'pipeline_runs' || after === undefined) return;
    this.all.set(String(after['id']), after);
    if (to === 'succeeded' && from !== to) this.#succeeded(String(after['id']));
  }

  /** Each step of the run was done once. */
  #succeeded(runId: string): void {
    const jobs = [...this.#jobs.all.values()].filter((job) => job['run_id'] === runId);
    const done = jobs.filter(({ status }) => status === 'succeeded').length;
    const items = this.#items.get(runId) ?? 0;
    // The last step may be in the same commit, and not recorded yet.
    const due = items + 2;
    if (jobs.length !== due || done < due - 1) {
      this.#accuse(
        'I6',
        `run ${runId} succeeded with ${done} of ${due} steps, ${jobs.length} begun`,
      );
    }
  }
}
