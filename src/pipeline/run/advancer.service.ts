import { setImmediate as turn } from 'node:timers/promises';
import { makeEarliestTimer } from '../../base/timer.ts';
import { makeFailureLog, type Log } from '../../base/log.ts';
import { DuctileError, messageOf } from '../../base/errors.ts';
import { makeToken } from '../../base/ids.ts';
import { limits } from '../../base/limits.ts';
import { makeLoop, type Loop } from '../../base/service.ts';
import type { LedgerContext } from '../../engine/context.ts';

export interface Advancer extends Loop {
  /** A branch is due in this time; look then, if that is sooner than the next look. */
  dueIn(ms: number): void;
}

/**
 * Moves branches on that a settle left behind: wide blocks, waits that are over, and what failed there.
 * Each step is one bounded transaction under the branch's token, and branches take turns, so that a
 * block of a hundred thousand neither blocks the event loop nor keeps others waiting.
 */
export function makeAdvancer(context: LedgerContext): Advancer {
  const log = context.log.child('advancer');
  const hands = makeHands(context, log);
  let isWanted = false;
  let isStopping = false;
  let nextInMs = 0;
  const complaint = makeFailureLog((fields) =>
    log.error('moving branches on failed; trying again', fields),
  );

  const loop = makeLoop({
    name: 'advancer',
    everyMs: () => (isWanted ? 0 : nextInMs),
    atOnce: true,
    async runOnce() {
      for (;;) {
        isWanted = false;
        const taken = await hands.take();
        nextInMs = Math.max(
          1,
          Math.min(context.config.service.pollIntervalMs, taken.nextInMs ?? Infinity),
        );
        isWanted ||= taken.isFull;
        const hasMoved = await hands.move();
        complaint.reset();
        if (!hasMoved || isStopping) return;
        await turn();
      }
    },
    onError: (error) => {
      nextInMs = limits.advanceRetryMs;
      isWanted = false;
      complaint.report(error);
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
    /** The step under way is finished; whoever comes next goes on where it stopped. */
    async stop() {
      isStopping = true;
      await alarm.stop();
      await loop.stop();
    },
  };
}

/** The branches that this process has claimed. */
interface Hands {
  /** Claims as many as there is room for; with a full answer there may be more. */
  take(): Promise<{ readonly isFull: boolean; readonly nextInMs: number | undefined }>;
  /** All of them by one step; whether any is left. Throws when the database is away. */
  move(): Promise<boolean>;
}

interface HeldBranch {
  readonly id: string;
  readonly token: string;
}

function makeHands({ ledger, processId, commits }: LedgerContext, log: Log): Hands {
  let held: HeldBranch[] = [];

  /** Whether the branch is still ours to move. */
  const step = async ({ id: branchId, token }: HeldBranch): Promise<boolean> => {
    try {
      const answer = await ledger.runs.advance({ branchId, token });
      if (answer.verdict === 'fenced') {
        log.warn('a branch was moved on by somebody else', { branch_id: branchId });
      }
      commits.publish(answer);
      return answer.verdict === 'more';
    } catch (thrown) {
      // The database is away: that is nobody's fault, and the branch stays ours until it is back.
      if (isAway(thrown)) throw thrown;
      const error = messageOf(thrown);
      log.error('an advancement failed', { branch_id: branchId, error });
      const triesMax = limits.advancementTriesMax;
      commits.publish(await ledger.runs.releaseBranch({ branchId, token, error, triesMax }));
      return false;
    }
  };

  return {
    async take() {
      const limit = limits.advancedAtOnceMax - held.length;
      if (limit === 0) return { isFull: true, nextInMs: undefined };
      const token = makeToken();
      const { branchIds, nextInMs } = await ledger.runs.claimBranches({ processId, token, limit });
      held.push(...branchIds.map((id) => ({ id, token })));
      return { isFull: branchIds.length === limit, nextInMs };
    },
    async move() {
      // What one throws is thrown when the others have had their turn.
      const ends = await Promise.allSettled(held.map(step));
      held = held.filter((_, index) => {
        const end = ends[index];
        return end?.status === 'rejected' || end?.value === true;
      });
      const failed = ends.find((end) => end.status === 'rejected');
      if (failed !== undefined) throw failed.reason;
      return held.length > 0;
    },
  };
}

function isAway(thrown: unknown): boolean {
  return thrown instanceof DuctileError && thrown.kind.retryable;
}
