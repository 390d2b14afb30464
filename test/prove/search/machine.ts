/**
 * The queue as a small state machine: two jobs, two workers, and everything that can happen to
 * them. The same functions as in the engine decide where the end of an attempt leads.
 */
import { createBareReport } from '../../../src/job/attempt.ts';
import {
  findChargedJobs,
  endAsCancelled,
  endAsCrashed,
  endAsFailed,
  endAsReleased,
  endAsSucceeded,
  type Ending,
} from '../../../src/job/outcome.ts';
import { canTransition, isTerminal, type JobStatus } from '../../../src/job/job.ts';

const MAX_ATTEMPTS = 2;
const CRASH_RULES = { crashesMax: 2, suspectAfter: 2 };

export interface MachineJob {
  readonly status: JobStatus;
  readonly attempt: number;
  /** The holder, as `<worker>.<life>.<claim>`. */
  readonly token: string | null;
  readonly retryCount: number;
  readonly crashCount: number;
  readonly interruptCount: number;
  readonly suspect: boolean;
  readonly isToStop: boolean;
  /** The attempts whose end is committed, each with its token and how it went. */
  readonly log: readonly string[];
}

type Phase = 'running' | 'ok' | 'error' | 'stopped';

export interface Worker {
  readonly isUp: boolean;
  /** Each crash starts another process. */
  readonly life: number;
  readonly claims: number;
  /** The claims that it believes it holds. */
  readonly held:
    | {
        readonly job: number;
        readonly attempt: number;
        readonly token: string;
        readonly phase: Phase;
      }
    | undefined;
}

/** The remaining number of each kind of event. */
export interface Bounds {
  readonly crashes: number;
  /** A worker that lives is taken for dead. */
  readonly expiries: number;
  /** The notification of a commit is lost. */
  readonly losses: number;
  readonly cancels: number;
  /** A worker stops as it should. */
  readonly leaves: number;
}

export interface State extends Bounds {
  readonly jobs: readonly MachineJob[];
  readonly workers: readonly Worker[];
}

export function firstState(bounds: Bounds): State {
  const job = {
    status: 'queued',
    attempt: 1,
    token: null,
    retryCount: 0,
    crashCount: 0,
    interruptCount: 0,
    suspect: false,
    isToStop: false,
    log: [],
  } as const;
  const worker = { isUp: true, life: 0, claims: 0, held: undefined };
  return { jobs: [job, job], workers: [worker, worker], ...bounds };
}

/** Everything that can happen next, each as the state that it leads to. */
export function next(state: State): State[] {
  const { workers, jobs } = state;
  return [
    ...workers.flatMap((worker, index) =>
      worker.isUp ? workOf(state, index) : [restart(state, index)],
    ),
    ...workers.flatMap((_, index) => reap(state, index)),
    ...(state.cancels > 0 ? jobs.flatMap((_, index) => cancel(state, index)) : []),
  ];
}

function workOf(state: State, index: number): State[] {
  const { held } = at(state.workers, index);
  return [
    ...(held === undefined ? claim(state, index) : goOn(state, index)),
    ...beat(state, index),
    ...(state.crashes > 0 ? [crash(state, index)] : []),
    ...(state.leaves > 0 ? [leave(state, index)] : []),
  ];
}

/** Claims the oldest ready job; the response arrives or is lost. */
function claim(state: State, index: number): State[] {
  const worker = at(state.workers, index);
  const job = state.jobs.findIndex(({ status }) => status === 'queued');
  if (job < 0) return [];
  const claims = worker.claims + 1;
  const token = `${index}.${worker.life}.${claims}`;
  const { attempt } = at(state.jobs, job);
  const taken = withJob(state, job, { status: 'running', token });
  const held = { job, attempt, token, phase: 'running' } as const;
  return [
    withWorker(taken, index, { claims, held }),
    ...lose(withWorker(taken, index, { claims })),
  ];
}

function goOn(state: State, index: number): State[] {
  const { held } = at(state.workers, index);
  if (held === undefined) return [];
  if (held.phase === 'running') {
    return (['ok', 'error'] as const).map((phase) =>
      withWorker(state, index, { held: { ...held, phase } }),
    );
  }
  const settled = settle(state, held);
  return [withWorker(settled, index, { held: undefined }), ...lose(settled)];
}

type HeldClaim = NonNullable<Worker['held']>;

/** Settles under the fence of the claim. A repeated settlement has no effect. */
function settle(state: State, held: HeldClaim): State {
  const job = at(state.jobs, held.job);
  if (!isHeld(job, held)) return state;
  const ending = endOf(job, held.phase);
  const isLate = job.isToStop && ending.status !== 'succeeded' && ending.status !== 'cancelled';
  return close(state, held.job, isLate ? endAsCancelled(counts(job)) : ending, held.phase);
}

function isHeld(job: MachineJob, { token, attempt }: HeldClaim): boolean {
  return job.status === 'running' && job.token === token && job.attempt === attempt;
}

function endOf(job: MachineJob, phase: Phase): Ending {
  const policy = { maxAttempts: MAX_ATTEMPTS, backoffBaseMs: 0 };
  if (phase === 'ok') return endAsSucceeded(counts(job));
  if (phase === 'stopped') return endAsCancelled(counts(job));
  const report = createBareReport('failed', 'plugin_error', 'it failed');
  return endAsFailed(counts(job), report, 'retryable', policy, 0);
}

/**
 * The ledger's view is compared with the worker's: lost claims are released, and ends are repeated.
 */
function beat(state: State, index: number): State[] {
  const { life, held } = at(state.workers, index);
  const mine = state.jobs.flatMap((job, place) =>
    job.token?.startsWith(`${index}.${life}.`) === true ? [{ job, place }] : [],
  );
  return mine.flatMap(({ job, place }) => {
    if (held?.job !== place || held.token !== job.token) {
      return [close(state, place, givenBack(job), 'unheld')];
    }
    const isStopping = job.isToStop && held.phase === 'running';
    return isStopping ? [withWorker(state, index, { held: { ...held, phase: 'stopped' } })] : [];
  });
}

function crash(state: State, index: number): State {
  const died = withWorker(state, index, { isUp: false, held: undefined });
  return { ...died, crashes: state.crashes - 1 };
}

/** The held claims are released, if it still holds them. */
function leave(state: State, index: number): State {
  const { held } = at(state.workers, index);
  const job = held && at(state.jobs, held.job);
  const isHolder = held !== undefined && job !== undefined && isHeld(job, held);
  const left = isHolder ? close(state, held.job, givenBack(job), 'released') : state;
  return withWorker({ ...left, leaves: state.leaves - 1 }, index, { isUp: false, held: undefined });
}

function givenBack(job: MachineJob): Ending {
  return job.isToStop ? endAsCancelled(counts(job)) : endAsReleased(counts(job));
}

function restart(state: State, index: number): State {
  const { life } = at(state.workers, index);
  return withWorker(state, index, { isUp: true, life: life + 1, claims: 0, held: undefined });
}

/**
 * A worker's earlier lives are presumed dead, or a worker that is only silent. Then it continues as
 * if nothing had happened, and finds out.
 */
function reap(state: State, index: number): State[] {
  const worker = at(state.workers, index);
  if (!state.workers.some(({ isUp }) => isUp)) return [];
  const left = state.jobs.flatMap((job, place) => {
    const [owner, life] = job.token?.split('.') ?? [];
    return Number(owner) === index ? [{ id: String(place), job, place, life: Number(life) }] : [];
  });
  const isDead = ({ life }: { readonly life: number }): boolean =>
    !worker.isUp || life < worker.life;
  const dead = left.filter(isDead);
  const silent = left.filter((one) => !isDead(one));
  const one = dead.length === 0 ? [] : [buried(state, dead)];
  const two =
    silent.length === 0 || state.expiries === 0
      ? []
      : [{ ...buried(state, silent), expiries: state.expiries - 1 }];
  return [...one, ...two];
}

function buried(
  state: State,
  left: readonly { readonly id: string; readonly job: MachineJob; readonly place: number }[],
): State {
  const charged = findChargedJobs(left.map(({ id, job }) => ({ id, suspect: job.suspect })));
  return left.reduce((before, { id, job, place }) => {
    const crashed = endAsCrashed(counts(job), charged.has(id), CRASH_RULES);
    return close(before, place, job.isToStop ? endAsCancelled(counts(job)) : crashed, 'crashed');
  }, state);
}

function cancel(state: State, index: number): State[] {
  const job = at(state.jobs, index);
  const cancels = state.cancels - 1;
  if (job.status === 'queued')
    return [{ ...withJob(state, index, { status: 'cancelled' }), cancels }];
  if (job.status !== 'running' || job.isToStop) return [];
  return [{ ...withJob(state, index, { isToStop: true }), cancels }];
}

/** The same state, but the notification was lost. */
function lose(state: State): State[] {
  return state.losses > 0 ? [{ ...state, losses: state.losses - 1 }] : [];
}

function close(state: State, index: number, ending: Ending, how: string): State {
  const job = at(state.jobs, index);
  if (!canTransition(job.status, ending.status))
    throw new Error(`from ${job.status} to ${ending.status}`);
  const { retryCount, crashCount, interruptCount, suspect, status } = ending;
  return withJob(state, index, {
    status,
    token: null,
    attempt: job.attempt + (isTerminal(status) ? 0 : 1),
    retryCount,
    crashCount,
    interruptCount,
    suspect,
    log: [...job.log, `${job.attempt} ${job.token} ${how} ${status}`],
  });
}

function counts(job: MachineJob): MachineJob & { readonly maxAttempts: number } {
  return { ...job, maxAttempts: MAX_ATTEMPTS };
}

function withJob(state: State, index: number, change: Partial<MachineJob>): State {
  return { ...state, jobs: state.jobs.with(index, { ...at(state.jobs, index), ...change }) };
}

function withWorker(state: State, index: number, change: Partial<Worker>): State {
  return {
    ...state,
    workers: state.workers.with(index, { ...at(state.workers, index), ...change }),
  };
}

function at<T>(list: readonly T[], index: number): T {
  const found = list[index];
  if (found === undefined) throw new Error(`there is no ${index}`);
  return found;
}
