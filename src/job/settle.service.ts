import { DuctileError, messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { Closing, Settlement } from '../ledger/commit.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { followDeath } from '../pipeline/follow-job.ts';
import type { FollowRules } from '../pipeline/follow-rules.ts';
import { mergeRunEvents, noRunEvents } from '../pipeline/run/changes.ts';
import type { RunStart } from '../pipeline/run/types.ts';
import { createBareReport, type AttemptReport } from './attempt.ts';
import { isTerminal, type Job } from './job.ts';
import { endAsCancelled, endAsFailed, endAsReleased } from './outcome.ts';
import type { ClaimedJob, ClaimRequest, EnqueueResult, SettleVerdict } from './types.ts';

const NO_RETRY = { maxAttempts: 1, backoffBaseMs: 0 };

/** A settlement with the closings that the ledger wrote, in the form in which it wrote them. */
export interface WrittenSettlement extends Settlement {
  readonly written: readonly Closing[];
}

/** Settles the ends of attempts. All attempts of this process end here. */
export interface Settler {
  /**
   * Settles each closing, or one that replaces it if the ledger refuses it. Rejects only if the ledger
   * can't be written at all. Then nothing is lost, and the caller retries.
   */
  settle(closings: readonly Closing[], claim?: ClaimRequest): Promise<WrittenSettlement>;
}

export function makeSettler(context: LedgerContext): Settler {
  const { ledger } = context;
  const log = context.log.child('settle');
  const rules = (): FollowRules => context.generation.rules;
  return {
    async settle(closings, claim) {
      let settled = await settleBatch(ledger, closings, claim, rules(), log);
      for (let offered = closings; ;) {
        const again = offered.flatMap((closing) => {
          const verdict = settled.verdicts.get(closing.job.id);
          if (verdict === 'fenced') logFenced(closing, log);
          return replaceRefused(closing, verdict, rules());
        });
        if (again.length === 0) return settled;
        settled = joinSettlements(
          settled,
          await settleBatch(ledger, again, undefined, rules(), log),
        );
        offered = again;
      }
    },
  };
}

/** Joins two settlements. If both have a verdict for a job, the later one counts. */
function joinSettlements(one: WrittenSettlement, two: WrittenSettlement): WrittenSettlement {
  return {
    verdicts: new Map([...one.verdicts, ...two.verdicts]),
    enqueued: [...one.enqueued, ...two.enqueued],
    claimed: [...one.claimed, ...two.claimed],
    written: [...one.written, ...two.written],
    runEvents: mergeRunEvents([one.runEvents, two.runEvents]),
  };
}

/**
 * Settles all closings in one transaction. If that fails because of the data, settles each alone, so
 * that one attempt's invalid result can't block the others. The claim is then left to the next round.
 */
async function settleBatch(
  ledger: Ledger,
  closings: readonly Closing[],
  claim: ClaimRequest | undefined,
  rules: FollowRules,
  log: Log,
): Promise<WrittenSettlement> {
  try {
    return withWritten(await ledger.jobs.settle(closings, claim), closings);
  } catch (error) {
    if (error instanceof DuctileError || closings.length === 0) throw error;
  }
  let settled = noSettlement;
  for (const closing of closings) {
    settled = joinSettlements(settled, await settleAlone(ledger, closing, rules, log));
  }
  return settled;
}

const noSettlement: WrittenSettlement = {
  verdicts: new Map(),
  enqueued: [],
  claimed: [],
  written: [],
  runEvents: noRunEvents,
};

function withWritten(settlement: Settlement, closings: readonly Closing[]): WrittenSettlement {
  const written = closings.filter(({ job }) => settlement.verdicts.get(job.id) === 'settled');
  return { ...settlement, written };
}

/** Settles one closing. If the ledger can't store it, settles a failure without the plugin's data. */
async function settleAlone(
  ledger: Ledger,
  closing: Closing,
  rules: FollowRules,
  log: Log,
): Promise<WrittenSettlement> {
  for (let offer = closing; ;) {
    try {
      return withWritten(await ledger.jobs.settle([offer]), [offer]);
    } catch (error) {
      if (error instanceof DuctileError) throw error;
      const message = messageOf(error);
      log.error('an attempt could not be settled', { ...toLogFields(closing.job), error: message });
      // This process doesn't hold the claim any more, so the next heartbeat releases it.
      if (offer !== closing) return noSettlement;
      offer = closeFailed(closing, toUnrecordedReport(closing, message), rules);
    }
  }
}

/** Drops everything that came from the plugin, so that the refused data isn't written again. */
function toUnrecordedReport({ report }: Closing, message: string): AttemptReport {
  const { queueMs, spawnMs, runMs, cpuMs, memoryPeakBytes, pid, exitCode } = report;
  const error = `the result could not be recorded: ${message}`;
  const measured = { queueMs, spawnMs, runMs, cpuMs, memoryPeakBytes };
  return { ...createBareReport('failed', 'settle_error', error), ...measured, pid, exitCode };
}

/**
 * Returns what to settle instead of a closing that the ledger refused. This terminates: a closing
 * without a state change isn't oversize, and a request to cancel doesn't refuse a cancelled ending.
 */
function replaceRefused(
  closing: Closing,
  verdict: SettleVerdict | undefined,
  rules: FollowRules,
): Closing[] {
  if (verdict === 'cancelled') {
    const error = closing.report.error ?? 'cancelled while it ran';
    return [
      {
        ...withoutConsequences(closing),
        report: { ...closing.report, status: 'cancelled', cause: 'cancelled', error },
        ending: endAsCancelled(closing.job),
      },
    ];
  }
  if (verdict === 'oversize') {
    const error = `the state would be larger than ${limits.stateBytesMax} bytes; the old state is kept`;
    const cause = 'state_too_large';
    return [closeFailed(closing, { ...closing.report, status: 'failed', cause, error }, rules)];
  }
  return [];
}

function closeFailed(closing: Closing, report: AttemptReport, rules: FollowRules): Closing {
  const { job } = closing;
  const ending = endAsFailed(job, report, 'final', NO_RETRY, 0);
  const end = { ...ending, error: report.error };
  return {
    ...withoutConsequences(closing),
    report,
    ending,
    ...followDeath(job, end, rules, Date.now()),
  };
}

function withoutConsequences({ job, claimToken, report, ending }: Closing): Closing {
  return { job, claimToken, report, ending, signals: [], jobs: [] };
}

/** Closes a claim that this process made ahead and for which no slot became free in time. */
export function closeUnstartedClaim(job: ClaimedJob): Closing {
  const report = createBareReport('released', 'not_started', 'no slot became free in time');
  const { claimToken, queueMs } = job;
  const ending = endAsReleased(job);
  return { job, claimToken, report: { ...report, queueMs }, ending, signals: [], jobs: [] };
}

function logFenced({ job, report }: Closing, log: Log): void {
  log.warn('a result came after its claim was lost, and was discarded', {
    ...toLogFields(job),
    attempt: job.attempt,
    ended: report.cause,
  });
}

/** Logs how an attempt ended, after its commit. */
export function logAttemptEnd({ job, report, ending }: Closing, log: Log): void {
  const fields = {
    ...toLogFields(job),
    attempt: job.attempt,
    status: ending.status,
    cause: report.cause,
    run_ms: report.runMs,
    ...(report.cpuMs === null ? {} : { cpu_ms: report.cpuMs }),
    ...(report.memoryPeakBytes === null ? {} : { memory_peak_bytes: report.memoryPeakBytes }),
    ...(report.error === null ? {} : { error: report.error }),
    ...(ending.status === 'queued' ? { retry_in_ms: ending.delayMs } : {}),
  };
  if (report.stderr !== null) {
    log.warn('plugin wrote to stderr', {
      ...toLogFields(job),
      stderr: report.stderr,
      ...(report.stderrTruncated ? { truncated_at_bytes: limits.stderrBytesMax } : {}),
    });
  }
  if (ending.status === 'succeeded') log.info('job succeeded', fields);
  else if (ending.status === 'cancelled') log.info('job cancelled', fields);
  else if (isTerminal(ending.status)) log.error('job ended without success', fields);
  else if (report.status === 'released')
    log.warn('attempt cut short; the job is queued again', fields);
  else log.warn('attempt failed; the job is queued again', fields);
}

const DUPLICATE = 'dropped as a duplicate: the same work is done or in progress';

export function logDuplicates(enqueued: readonly EnqueueResult[], log: Log): void {
  for (const { duplicateOf, dedupeKey } of enqueued) {
    if (duplicateOf === undefined) continue;
    log.info(DUPLICATE, { dedupe_key: dedupeKey, existing_job_id: duplicateOf });
  }
}

export function logDuplicateRuns(dropped: readonly RunStart[], log: Log): void {
  for (const { duplicateOf, dedupeKey } of dropped) {
    log.info(DUPLICATE, { dedupe_key: dedupeKey, existing_run_id: duplicateOf });
  }
}

/** The fields by which log lines name a job. */
export function toLogFields(job: Job): { plugin: string; command: string; job_id: string } {
  return { plugin: job.plugin, command: job.command, job_id: job.id };
}
