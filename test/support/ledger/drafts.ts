/** Drafts for tests of a ledger: jobs, processes, and every way an attempt can end. */
import { switchPause } from '../../../src/job/plugin-state.sql.ts';
import { makeId, makeToken } from '../../../src/base/ids.ts';
import type { DirectiveDraft } from '../../../src/directive/directive.ts';
import {
  type AttemptCause,
  createBareReport,
  type AttemptReport,
} from '../../../src/job/attempt.ts';
import type { Dedupe, Job, JobDraft } from '../../../src/job/job.ts';
import {
  endAsCancelled as toCancelledEnding,
  endAsCrashed,
  endAsFailed,
  endAsReleased,
  endAsSucceeded,
  type Ending,
} from '../../../src/job/outcome.ts';
import type {
  DirectiveStart,
  DirectiveWork,
  DirectiveInsert,
} from '../../../src/ledger/directive-work.ts';
import type { DirectiveWait } from '../../../src/directive/types.ts';
import type { IdempotencyKey } from '../../../src/operation/idempotency.sql.ts';
import type {
  ClaimablePlugin,
  ClaimedJob,
  ClaimRequest,
  ProcessBeat,
  SettleVerdict,
} from '../../../src/job/types.ts';
import type { Closing } from '../../../src/ledger/commit.ts';
import type { Ledger } from '../../../src/ledger/ledger.ts';
import type { SignalDraft } from '../../../src/signal/signal.ts';

export function draft(overrides: Partial<JobDraft> = {}): JobDraft {
  return {
    id: makeId(),
    plugin: 'echo',
    command: 'handle',
    payload: '{}',
    submittedBy: 'api',
    actor: 'api:test',
    maxAttempts: 4,
    ...overrides,
  };
}

const DAY_MS = 24 * 60 * 60 * 1000;

/** Creates a key that open work blocks, too, as for events of plugins. */
export function strict(key: string, ttlMs = DAY_MS): Dedupe {
  return { key, ttlMs, blockInFlight: true };
}

/** Creates a key that only a success blocks, as for external callers. */
export function lenient(key: string, ttlMs = DAY_MS): Dedupe {
  return { key, ttlMs, blockInFlight: false };
}

export function beat(id: string, overrides: Partial<ProcessBeat> = {}): ProcessBeat {
  return {
    id,
    host: 'host',
    pid: 1,
    version: '1.0.0',
    slots: 10,
    spawner: 'node',
    plugins: ['echo'],
    ...overrides,
  };
}

export function claimable(
  name = 'echo',
  overrides: Partial<ClaimablePlugin> = {},
): ClaimablePlugin {
  return { name, parallelism: 1000, leaseMs: {}, leaseDefaultMs: 60_000, ...overrides };
}

export function request(processId: string, overrides: Partial<ClaimRequest> = {}): ClaimRequest {
  return { processId, token: makeToken(), slots: 10, plugins: [claimable()], ...overrides };
}

/** Sends a heartbeat of the process, and claims for it. */
export async function claimAs(
  ledger: Ledger,
  processId: string,
  overrides: Partial<ClaimRequest> = {},
): Promise<ClaimedJob[]> {
  await ledger.processes.heartbeat(beat(processId));
  return ledger.jobs.claim(request(processId, overrides));
}

/** Enqueues one job and claims it. */
export async function startOne(
  ledger: Ledger,
  processId: string,
  overrides: Partial<JobDraft> = {},
): Promise<ClaimedJob> {
  const jobDraft = draft(overrides);
  await ledger.jobs.enqueue({ jobs: [jobDraft] });
  const plugins = [claimable(jobDraft.plugin)];
  const claimed = await claimAs(ledger, processId, { plugins, slots: 1 });
  const [job] = claimed;
  if (job?.id !== jobDraft.id) throw new Error('another job was claimed than the one just added');
  return job;
}

type Consequences = Partial<Pick<Closing, 'state' | 'signals' | 'jobs'>>;

export function succeed(job: Job, consequences: Consequences = {}): Closing {
  const report = { ...makeReport('succeeded', 'ok', null), result: '{"status":"ok"}', exitCode: 0 };
  return closing(job, report, endAsSucceeded(job), consequences);
}

export function fail(job: Job, consequences: Consequences = {}): Closing {
  const report = { ...makeReport('failed', 'exit', 'it broke'), exitCode: 78 };
  return closing(job, report, endAsFailed(job, report, 'final', retries, 0), consequences);
}

const retries = { maxAttempts: 4, backoffBaseMs: 60_000 };

/** Closes an attempt as failed: the job is retried after a delay, or its attempts are used up. */
export function retryLater(job: Job, delayMs = 60_000): Closing {
  const report = makeReport('failed', 'plugin_error', 'not today');
  const ending = endAsFailed(job, report, 'retryable', retries, 0);
  return closing(job, report, ending.status === 'queued' ? { ...ending, delayMs } : ending);
}

export function release(job: Job): Closing {
  return closing(job, makeReport('released', 'shutdown', 'cut short'), endAsReleased(job));
}

export function crash(job: Job, charged = false): Closing {
  const ending = endAsCrashed(job, charged, { crashesMax: 10, suspectAfter: 2 });
  return closing(job, makeReport('crashed', 'engine_crash', 'its process died'), ending);
}

export function endAsCancelled(job: Job): Closing {
  return closing(job, makeReport('cancelled', 'cancelled', 'cancelled'), toCancelledEnding(job));
}

/** Ends a queued job that no process will run. */
export function closeUnrunnable(job: Job): Closing {
  const ending: Ending = { ...toCancelledEnding(job), status: 'dead', reason: 'no_runner' };
  return {
    ...closing(job, makeReport('failed', 'spawn', 'nobody knows it'), ending),
    claimToken: null,
  };
}

function makeReport(
  status: AttemptReport['status'],
  cause: AttemptCause,
  error: string | null,
): AttemptReport {
  return { ...createBareReport(status, cause, ''), error };
}

function closing(
  job: Job,
  report: AttemptReport,
  ending: Ending,
  consequences: Consequences = {},
): Closing {
  return {
    job,
    claimToken: job.claimToken,
    report,
    ending,
    signals: [],
    jobs: [],
    ...consequences,
  };
}

export function signalOf(
  job: Job,
  eventIndex = 0,
  overrides: Partial<SignalDraft> = {},
): SignalDraft {
  return {
    id: makeId(),
    type: 'file.found',
    source: `plugin:${job.plugin}`,
    data: '{}',
    hops: 0,
    correlationId: job.rootJobId,
    jobId: job.id,
    jobAttempt: job.attempt,
    eventIndex,
    ...overrides,
  };
}

/** Settles one closing and returns its verdict. */
export async function settleOne(ledger: Ledger, one: Closing): Promise<SettleVerdict> {
  const { verdicts } = await ledger.jobs.settle([one]);
  const verdict = verdicts.get(one.job.id);
  if (verdict === undefined || verdicts.size !== 1) throw new Error('there is not one verdict');
  return verdict;
}

/** Creates a directive that pauses the ledger, or does other work. */
export function pausing(
  overrides: Partial<DirectiveDraft> = {},
  work: DirectiveWork | 'process' = (tx) => switchPause(tx, true),
): DirectiveInsert {
  const id = makeId();
  const directive: DirectiveDraft = {
    id,
    type: 'system.pause',
    target: 'system:',
    params: '{}',
    actor: 'api:test',
    actorRole: null,
    scope: 'system:rw',
    correlationId: id,
    causationId: null,
    maxAttempts: 1,
    sameness: 'toggle',
    plan: '["It would be paused."]',
    signalId: makeId(),
    ...overrides,
  };
  const end = (status: string): { signals: SignalDraft[]; jobs: JobDraft[] } => ({
    signals: [
      {
        id: directive.signalId,
        type: `directive.${status}`,
        source: 'ductile',
        data: '{}',
        hops: 1,
        correlationId: directive.id,
      },
    ],
    jobs: [],
  });
  const ends = { completed: end('completed'), failed: () => end('failed') };
  const sqlWork = work === 'process' ? undefined : work;
  return { draft: directive, processId: 'p1', work: sqlWork, ends };
}

/** Creates a waiting directive that pauses the ledger when it starts. */
export function waiting(
  wait: Partial<DirectiveWait> = {},
  overrides: Partial<DirectiveDraft> = {},
): DirectiveInsert & Pick<DirectiveStart, 'begin'> {
  const insert = pausing({ sameness: 'each', ...overrides });
  const begin = { signals: [], jobs: [] };
  return { ...insert, wait: { forApproval: false, ...wait }, begin };
}

export function keyed(key: string, overrides: Partial<IdempotencyKey> = {}): IdempotencyKey {
  return {
    actor: 'api',
    route: 'POST /a',
    key,
    bodyDigest: 'd',
    subjectId: makeId(),
    ...overrides,
  };
}
