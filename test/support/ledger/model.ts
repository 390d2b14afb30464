/** A model of the ledger in memory, which computes the expected result of each function. */
import type { JobDraft, CancelResult, JobStatus } from '../../../src/job/job.ts';
import type { ClaimRequest, EnqueueResult, SettleVerdict } from '../../../src/job/types.ts';
import type { Closing } from '../../../src/ledger/commit.ts';

export interface ModelJob {
  readonly id: string;
  readonly plugin: string;
  readonly target: string | undefined;
  readonly dependencyKey: string | undefined;
  /** The ledger decides the order within a millisecond; a model can't know it. */
  readyAt: string;
  status: JobStatus;
  attempt: number;
  delayed: boolean;
  stopping: boolean;
  suspect: boolean;
  token: string | null;
  owner: string | null;
}

type Holder = { readonly jobId: string; readonly by: 'work' | 'success' };

export class Model {
  /** Jobs in the order of their arrival. */
  readonly jobs: ModelJob[] = [];
  readonly processes = new Set<string>();
  /** Ended attempts, as the log must contain them. */
  readonly log: string[][] = [];
  readonly #keys = new Map<string, Holder>();

  enqueue(draft: JobDraft): EnqueueResult {
    const { id, plugin, dedupe } = draft;
    const target = dedupe && JSON.stringify([dedupe.key, plugin, draft.command]);
    if (target !== undefined) {
      const holder = this.#keys.get(target);
      const blocks = holder?.by === 'success' || dedupe?.blockInFlight === true;
      if (holder !== undefined && blocks) {
        return { jobId: id, duplicateOf: holder.jobId, dedupeKey: dedupe?.key ?? '' };
      }
      this.#keys.set(target, { jobId: id, by: 'work' });
    }
    this.jobs.push({ ...fresh, id, plugin, target, dependencyKey: draft.dependencyKey });
    return { jobId: id };
  }

  claim({ processId, token, slots, plugins }: ClaimRequest): string[] {
    if (!this.processes.has(processId)) return [];
    const claimed: string[] = [];
    for (const job of this.jobs.filter(({ status, delayed }) => status === 'queued' && !delayed)) {
      if (claimed.length >= slots) break;
      const running = this.jobs.filter(({ status }) => status === 'running');
      const cap = plugins.find(({ name }) => name === job.plugin)?.parallelism ?? 0;
      if (running.filter(({ plugin }) => plugin === job.plugin).length >= cap) continue;
      if (job.target !== undefined && running.some(({ target }) => target === job.target)) continue;
      if (job.dependencyKey !== undefined && this.#firstInLine(job.dependencyKey) !== job) continue;
      if (job.suspect && running.some(({ suspect, owner }) => suspect && owner === processId))
        continue;
      Object.assign(job, { status: 'running', token, owner: processId });
      claimed.push(job.id);
    }
    return claimed;
  }

  settle({ job: { id, attempt }, claimToken, ending, report }: Closing): SettleVerdict {
    const job = this.#find(id);
    const row = [id, String(attempt), claimToken ?? '', report.status, report.cause];
    const isHeld = job?.status === 'running' && job.token === claimToken && job.attempt === attempt;
    if (job === undefined || !isHeld) {
      const before = this.log.some((line) => line.every((word, index) => word === row[index]));
      return before ? 'settled' : 'fenced';
    }
    const fits = ending.status === 'succeeded' || ending.status === 'cancelled';
    if (job.stopping && !fits) return 'cancelled';
    this.log.push(row);
    const again = ending.status === 'queued';
    job.status = ending.status;
    job.attempt += again ? 1 : 0;
    job.delayed = again && ending.delayMs > 0;
    job.suspect = ending.suspect;
    job.token = null;
    job.owner = null;
    if (!again) this.#closeKey(job, ending.status === 'succeeded');
    return 'settled';
  }

  cancel(id: string): CancelResult {
    const job = this.#find(id);
    if (job === undefined) return 'unknown';
    if (job.status === 'cancelled') return 'cancelled';
    if (job.status === 'running') {
      job.stopping = true;
      return 'requested';
    }
    if (job.status !== 'queued') return 'terminal';
    job.status = 'cancelled';
    job.delayed = false;
    this.#closeKey(job, false);
    return 'cancelled';
  }

  reap(processId: string, closings: readonly Closing[]): SettleVerdict[] {
    const verdicts = closings.map((closing) => this.settle(closing));
    const left = this.jobs.some(({ owner }) => owner === processId);
    if (!left) this.processes.delete(processId);
    return verdicts;
  }

  /** Lets time pass: delayed jobs become due, and dedupe keys of successes expire. */
  pass(): number {
    const due = this.jobs.filter(({ delayed }) => delayed);
    for (const job of due) job.delayed = false;
    for (const [target, { by }] of this.#keys) if (by === 'success') this.#keys.delete(target);
    return due.length;
  }

  /** Returns the first due job of a dependency key, unless one runs. */
  #firstInLine(key: string): ModelJob | undefined {
    const open = this.jobs.filter(({ dependencyKey }) => dependencyKey === key);
    const due = open.filter(({ status, delayed }) => status === 'queued' && !delayed);
    if (open.some(({ status }) => status === 'running')) return undefined;
    // A stable sort keeps the order of requests.
    return due.toSorted((a, b) => (a.readyAt < b.readyAt ? -1 : a.readyAt > b.readyAt ? 1 : 0))[0];
  }

  #find(id: string): ModelJob | undefined {
    return this.jobs.find((job) => job.id === id);
  }

  #closeKey({ id, target }: ModelJob, succeeded: boolean): void {
    if (target === undefined) return;
    if (succeeded) this.#keys.set(target, { jobId: id, by: 'success' });
    else if (this.#keys.get(target)?.jobId === id) this.#keys.delete(target);
  }
}

const fresh = {
  readyAt: '',
  status: 'queued',
  attempt: 1,
  delayed: false,
  stopping: false,
  suspect: false,
  token: null,
  owner: null,
} as const;
