import { DuctileError, messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { bareReport, type AttemptReport } from './attempt.ts';
import type { Job } from './job.ts';
import { endCancelled, endFailed } from './outcome.ts';
import type { ClaimRequest, Verdict } from './types.ts';
import type { Closing, Settlement } from '../ledger/commit.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { joinNews, noNews } from '../pipeline/run/types.ts';
import { arriveFailed } from '../pipeline/run/after-job.service.ts';
import { followDeath } from '../pipeline/follow-signal.ts';
import type { FollowRules } from '../pipeline/follow-event.ts';

const NO_RETRY = { maxAttempts: 1, backoffBaseMs: 0 };

/** What became of closings; `written` are those that the ledger took, as it took them. */
export interface Settled extends Settlement {
  readonly written: readonly Closing[];
}

/** The one door out: hands ends of attempts to the ledger until each is settled, one way or another. */
export interface Settler {
  /** Rejects only when the ledger cannot be written at all; then nothing is lost and it is asked again. */
  settle(closings: readonly Closing[], claim?: ClaimRequest): Promise<Settled>;
}

export function makeSettler(ledger: Ledger, rules: () => FollowRules, log: Log): Settler {
  return {
    async settle(closings, claim) {
      let settled = await settleBatch(ledger, closings, claim, rules(), log);
      for (let offered = closings; ;) {
        const again = offered.flatMap((closing) => {
          const verdict = settled.verdicts.get(closing.job.id);
          if (verdict === 'fenced') logFenced(closing, log);
          return secondThoughts(closing, verdict, rules());
        });
        if (again.length === 0) return settled;
        settled = join(settled, await settleBatch(ledger, again, undefined, rules(), log));
        offered = again;
      }
    },
  };
}

/** Of a job in both, the later verdict counts. */
function join(one: Settled, two: Settled): Settled {
  return {
    verdicts: new Map([...one.verdicts, ...two.verdicts]),
    enqueued: [...one.enqueued, ...two.enqueued],
    claimed: [...one.claimed, ...two.claimed],
    written: [...one.written, ...two.written],
    news: joinNews([one.news, two.news]),
  };
}

/** Tells how long each commit took. */
export function timed(settler: Settler, tell: (ms: number) => void): Settler {
  return {
    async settle(closings, claim) {
      const began = performance.now();
      const settled = await settler.settle(closings, claim);
      tell(performance.now() - began);
      return settled;
    },
  };
}

/**
 * Settles all together; when that fails for a reason that lies in the data, each alone, so that one
 * attempt's impossible result cannot hold up the others. The claim is then left to the next turn.
 */
async function settleBatch(
  ledger: Ledger,
  closings: readonly Closing[],
  claim: ClaimRequest | undefined,
  rules: FollowRules,
  log: Log,
): Promise<Settled> {
  try {
    return withWritten(await ledger.settle(closings, claim), closings);
  } catch (error) {
    if (error instanceof DuctileError || closings.length === 0) throw error;
  }
  let settled = nothing;
  for (const closing of closings) {
    settled = join(settled, await settleAlone(ledger, closing, rules, log));
  }
  return settled;
}

const nothing: Settled = {
  verdicts: new Map(),
  enqueued: [],
  claimed: [],
  written: [],
  news: noNews,
};

function withWritten(settlement: Settlement, closings: readonly Closing[]): Settled {
  const written = closings.filter(({ job }) => settlement.verdicts.get(job.id) === 'settled');
  return { ...settlement, written };
}

async function settleAlone(
  ledger: Ledger,
  closing: Closing,
  rules: FollowRules,
  log: Log,
): Promise<Settled> {
  for (let offer = closing; ;) {
    try {
      return withWritten(await ledger.settle([offer]), [offer]);
    } catch (error) {
      if (error instanceof DuctileError) throw error;
      const message = messageOf(error);
      log.error('an attempt could not be settled', { ...toLogFields(closing.job), error: message });
      // Nobody here holds it any more, so the next heartbeat gives it back.
      if (offer !== closing) return nothing;
      offer = failFor(closing, refusedReport(closing, message), rules);
    }
  }
}

/** Without anything of the plugin's own in it, so that what was refused is not tried again. */
function refusedReport({ report }: Closing, message: string): AttemptReport {
  const { queueMs, spawnMs, runMs, cpuMs, memoryPeakBytes, pid, exitCode } = report;
  const error = `the result could not be recorded: ${message}`;
  const measured = { queueMs, spawnMs, runMs, cpuMs, memoryPeakBytes };
  return { ...bareReport('failed', 'settle_error', error), ...measured, pid, exitCode };
}

/**
 * What to do instead with a closing that the ledger did not take as it was. That comes to an end: what
 * has no state is not too large, and what ends as cancelled is not kept from ending by a cancellation.
 */
function secondThoughts(
  closing: Closing,
  verdict: Verdict | undefined,
  rules: FollowRules,
): Closing[] {
  if (verdict === 'cancelled') {
    const error = closing.report.error ?? 'cancelled while it ran';
    const ending = endCancelled(closing.job);
    return [
      {
        ...bare(closing),
        report: { ...closing.report, status: 'cancelled', cause: 'cancelled', error },
        ending,
        ...arriveFailed(closing.job, ending, error),
      },
    ];
  }
  if (verdict === 'oversize') {
    const error = `the state would be larger than ${limits.stateBytesMax} bytes; the old state is kept`;
    const cause = 'state_too_large';
    return [failFor(closing, { ...closing.report, status: 'failed', cause, error }, rules)];
  }
  return [];
}

function failFor(closing: Closing, report: AttemptReport, rules: FollowRules): Closing {
  const { job } = closing;
  const ending = endFailed(job, report, 'final', NO_RETRY, 0);
  const end = { ...ending, error: report.error };
  return {
    ...bare(closing),
    report,
    ending,
    ...followDeath(job, end, rules, Date.now()),
    ...arriveFailed(job, ending, report.error),
  };
}

function bare({ job, claimToken, report, ending }: Closing): Closing {
  return { job, claimToken, report, ending, signals: [], jobs: [] };
}

function logFenced({ job, report }: Closing, log: Log): void {
  log.warn('a result came after its claim was lost, and was discarded', {
    ...toLogFields(job),
    attempt: job.attempt,
    ended: report.cause,
  });
}

export function toLogFields(job: Job): { plugin: string; command: string; job_id: string } {
  return { plugin: job.plugin, command: job.command, job_id: job.id };
}
