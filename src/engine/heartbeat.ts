import { messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { makeLoop, type Loop } from '../base/service.ts';
import type { HeartbeatAnswer, Ledger, ProcessBeat } from '../ledger/ledger.ts';

export interface Heartbeat extends Loop {
  /** Since when every heartbeat was committed, in monotonic milliseconds; undefined after a failure. */
  readonly unbrokenSince: number | undefined;
  /** When the last one was over, however it went, in monotonic milliseconds. */
  readonly lastRoundAt: number;
  /** Why the last one could not be recorded. */
  readonly trouble: string | undefined;
}

export interface HeartbeatOptions {
  readonly ledger: Ledger;
  readonly everyMs: () => number;
  readonly beat: () => ProcessBeat;
  readonly onBeat: (answer: HeartbeatAnswer) => void;
  /** Somebody reaped this process although it lives: its claims belong to others now. */
  readonly onLost: () => void;
  readonly log: Log;
}

/** Says that the process lives, and compares what it holds with what the ledger believes. */
export function makeHeartbeat(options: HeartbeatOptions): Heartbeat {
  const { ledger, everyMs, beat, onBeat, onLost, log } = options;
  let unbrokenSince: number | undefined;
  let registered = false;
  let trouble: string | undefined;
  let lastRoundAt = performance.now();

  const runOnce = async (): Promise<void> => {
    const answer = await ledger.heartbeat(beat());
    unbrokenSince ??= performance.now();
    trouble = undefined;
    if (registered && !answer.known) {
      log.error('this process was presumed dead; its claims were given to others');
      unbrokenSince = performance.now();
      onLost();
    }
    registered = true;
    lastRoundAt = performance.now();
    onBeat(answer);
  };

  const loop = makeLoop({
    name: 'heartbeat',
    everyMs,
    runOnce,
    onError: (error) => {
      unbrokenSince = undefined;
      trouble = messageOf(error);
      lastRoundAt = performance.now();
      log.error('the heartbeat could not be recorded', { error: messageOf(error) });
    },
  });

  return {
    name: 'heartbeat',
    get unbrokenSince() {
      return unbrokenSince;
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
