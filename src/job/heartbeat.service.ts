import { makeFailureLog, type Log } from '../base/log.ts';
import { messageOf } from '../base/errors.ts';
import { makeLoop, type Loop } from '../base/service.ts';
import type { HeartbeatAnswer, ProcessBeat } from './types.ts';
import type { Ledger } from '../ledger/ledger.ts';

export interface Heartbeat extends Loop {
  /**
   * Since when every heartbeat was committed, and in time, in monotonic milliseconds; undefined after
   * a failure, or when the last one was so long ago that this process may be presumed dead itself.
   */
  readonly unbrokenSince: number | undefined;
  /** When the last one was over, however it went, in monotonic milliseconds. */
  readonly lastRoundAt: number;
  /** Why the last one could not be recorded. */
  readonly trouble: string | undefined;
}

export interface HeartbeatOptions {
  readonly ledger: Ledger;
  readonly everyMs: () => number;
  /** For how long others wait for one before they presume this process dead. */
  readonly silentMs: () => number;
  readonly beat: () => ProcessBeat;
  /** With how long ago it was asked for: others count from its commit, which was no sooner. */
  readonly onBeat: (answer: HeartbeatAnswer, agoMs: number) => void;
  /** Somebody reaped this process although it lives: its claims belong to others now. */
  readonly onLost: () => void;
  readonly log: Log;
}

/** Says that the process lives, and compares what it holds with what the ledger believes. */
export function makeHeartbeat(options: HeartbeatOptions): Heartbeat {
  const { ledger, everyMs, silentMs, beat, onBeat, onLost, log } = options;
  let unbrokenSince: number | undefined;
  /** When the last one was asked for that was committed. */
  let committedAt: number | undefined;
  let registered = false;
  let trouble: string | undefined;
  let lastRoundAt = performance.now();
  const complaint = makeFailureLog((fields) =>
    log.error('the heartbeat could not be recorded', fields),
  );

  const isSilent = (): boolean =>
    committedAt !== undefined && performance.now() - committedAt >= silentMs();

  const runOnce = async (): Promise<void> => {
    const askedAt = performance.now();
    const answer = await ledger.heartbeat(beat());
    if (isSilent()) unbrokenSince = undefined;
    committedAt = askedAt;
    unbrokenSince ??= performance.now();
    trouble = undefined;
    complaint.reset();
    if (registered && !answer.known) {
      log.error('this process was presumed dead; its claims were given to others');
      unbrokenSince = performance.now();
      onLost();
    }
    registered = true;
    lastRoundAt = performance.now();
    onBeat(answer, performance.now() - askedAt);
  };

  const loop = makeLoop({
    name: 'heartbeat',
    everyMs,
    runOnce,
    onError: (error) => {
      unbrokenSince = undefined;
      trouble = messageOf(error);
      lastRoundAt = performance.now();
      complaint.report(error);
    },
  });

  return {
    name: 'heartbeat',
    get unbrokenSince() {
      return isSilent() ? undefined : unbrokenSince;
    },
    get lastRoundAt() {
      return lastRoundAt;
    },
    get trouble() {
      return trouble;
    },
    async start() {
      await runOnce();
      await loop.start();
    },
    stop: () => loop.stop(),
    soon: () => loop.soon(),
  };
}
