import { setImmediate as turn } from 'node:timers/promises';
import { makeEarliestTimer } from '../../base/timer.ts';
import { makeFailureLog, type Log } from '../../base/log.ts';
import { DuctileError, messageOf } from '../../base/errors.ts';
import { makeToken } from '../../base/ids.ts';
import { limits } from '../../base/limits.ts';
import { makeLoop, type Loop } from '../../base/service.ts';
import type { LedgerContext } from '../../engine/context.ts';

export interface Advancer extends Loop {
  /** Runs the loop in this time, if that is before its next run. */
  dueIn(ms: number): void;
}

/**
 * Advances branches that a settle left: wide blocks, waits that are over, and failed advancements. Each
 * step is one bounded transaction under the branch's claim token. Branches take turns, so that a block
 * of 100,000 branches neither blocks the event loop nor delays other runs.
 */
export function makeAdvancer(context: LedgerContext): Advancer {
  const log = context.log.child('advancer');
  const claimed = makeClaimedBranches(context, log);
  let isWanted = false;
  let isStopping = false;
  let nextInMs = 0;
  const failureLog = makeFailureLog((fields) =>
    log.error('advancing branches failed; trying again', fields),
  );

  const loop = makeLoop({
    name: 'advancer',
    everyMs: () => (isWanted ? 0 : nextInMs),
    atOnce: true,
    async runOnce() {
      for (;;) {
        isWanted = false;
        const claim = await claimed.claim();
        nextInMs = Math.max(
          1,
          Math.min(context.config.service.pollIntervalMs, claim.nextInMs ?? Infinity),
        );
        isWanted ||= claim.isFull;
        const hasMore = await claimed.advance();
        failureLog.reset();
        if (!hasMore || isStopping) return;
        await turn();
      }
    },
    onError: (error) => {
      nextInMs = limits.advanceRetryMs;
      isWanted = false;
      failureLog.report(error);
    },
  });

  const soon = (): void => {
    isWanted = true;
    loop.soon();
  };
  const alarm = makeEarliestTimer(soon);

  return {
    ...loop,
    soon,
    dueIn: (ms) => alarm.in(ms),
    /** Finishes the current step. Another process continues with the next one. */
    async stop() {
      isStopping = true;
      await alarm.stop();
      await loop.stop();
    },
  };
}

/** The branches that this process has claimed. */
interface ClaimedBranches {
  /** Claims as many branches as the limit allows. `isFull`: more branches can be due. */
  claim(): Promise<{ readonly isFull: boolean; readonly nextInMs: number | undefined }>;
  /** Advances each branch by one step. Returns true if any is left. Throws without a database. */
  advance(): Promise<boolean>;
}

interface ClaimedBranch {
  readonly id: string;
  readonly token: string;
}

function makeClaimedBranches(
  { ledger, processId, commits }: LedgerContext,
  log: Log,
): ClaimedBranches {
  let branches: ClaimedBranch[] = [];

  /** Returns true if the branch needs another step. */
  const advanceOne = async ({ id: branchId, token }: ClaimedBranch): Promise<boolean> => {
    try {
      const result = await ledger.runs.advance({ branchId, token });
      if (result.verdict === 'fenced') {
        log.warn('a branch was advanced by another process', { branch_id: branchId });
      }
      commits.publish(result);
      return result.verdict === 'more';
    } catch (thrown) {
      // Without a database, the branch stays claimed, and the failure doesn't count.
      if (isDatabaseAway(thrown)) throw thrown;
      const error = messageOf(thrown);
      log.error('an advancement failed', { branch_id: branchId, error });
      const triesMax = limits.advancementAttemptsMax;
      commits.publish(await ledger.runs.releaseBranch({ branchId, token, error, triesMax }));
      return false;
    }
  };

  return {
    async claim() {
      const limit = limits.advancedAtOnceMax - branches.length;
      if (limit === 0) return { isFull: true, nextInMs: undefined };
      const token = makeToken();
      const { branchIds, nextInMs } = await ledger.runs.claimBranches({ processId, token, limit });
      branches.push(...branchIds.map((id) => ({ id, token })));
      return { isFull: branchIds.length === limit, nextInMs };
    },
    async advance() {
      // An error of one branch is thrown after all others had their step.
      const results = await Promise.allSettled(branches.map(advanceOne));
      branches = branches.filter((_, index) => {
        const result = results[index];
        return result?.status === 'rejected' || result?.value === true;
      });
      const failed = results.find((result) => result.status === 'rejected');
      if (failed !== undefined) throw failed.reason;
      return branches.length > 0;
    },
  };
}

function isDatabaseAway(thrown: unknown): boolean {
  return thrown instanceof DuctileError && thrown.kind.retryable;
}
