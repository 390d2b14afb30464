import { limits } from '../base/limits.ts';

/** Deliveries that came faster than a webhook takes them, remembered for a while in this process. */
export interface TurnedAway {
  note(hookId: string, nowMs: number): void;
  /** How many of late; 0 when there were none. */
  count(hookId: string, nowMs: number): number;
}

export function makeTurnedAway(): TurnedAway {
  const streaks = new Map<string, { readonly count: number; readonly lastMs: number }>();
  const count = (hookId: string, nowMs: number): number => {
    const known = streaks.get(hookId);
    return known === undefined || nowMs - known.lastMs > limits.hookTurnedAwayMs ? 0 : known.count;
  };
  return {
    note(hookId, nowMs) {
      const next = { count: count(hookId, nowMs) + 1, lastMs: nowMs };
      // Put behind all others, so that the one that was longest quiet is forgotten first.
      streaks.delete(hookId);
      streaks.set(hookId, next);
      const [oldest = hookId] = streaks.keys();
      if (streaks.size > limits.hookWindowsMax) streaks.delete(oldest);
    },
    count,
  };
}
