import { limits } from '../base/limits.ts';

/**
 * How much one webhook and one source may do in a minute. A webhook's budget is spent by verified
 * deliveries alone and a source's by those that failed, so whoever has no secret takes nothing from
 * who has one. Time is an argument: milliseconds of any clock that does not go back.
 */
export interface Limiter {
  /** Whether a source may fail once more. */
  checkSource(source: string, nowMs: number): Pass;
  /** It sent what was not verified. */
  chargeSource(source: string, nowMs: number): void;
  /** Whether one more verified delivery is within the budget, which it then spends. */
  spend(hookId: string, perMinute: number, nowMs: number): Pass;
  /** What was spent last started nothing: whoever has a copy of a delivery takes nothing either. */
  giveBack(hookId: string): void;
  reset(): void;
}

export type Pass = { readonly ok: true } | { readonly ok: false; readonly retryAfterMs: number };

const WINDOW_MS = 60 * 1000;
const passed: Pass = { ok: true };

export function makeLimiter(): Limiter {
  const hooks = new Map<string, Window>();
  const sources = new Map<string, Window>();
  const open = (windows: Map<string, Window>, key: string): Window =>
    touch(windows, key, windows.get(key) ?? new Window());
  return {
    checkSource(source, nowMs) {
      return sources.get(source)?.look(limits.hookFailuresMax, nowMs) ?? passed;
    },
    chargeSource(source, nowMs) {
      const window = open(sources, source);
      if (window.look(limits.hookFailuresMax, nowMs).ok) window.add(nowMs);
    },
    spend(hookId, perMinute, nowMs) {
      const window = open(hooks, hookId);
      const pass = window.look(perMinute, nowMs);
      if (pass.ok) window.add(nowMs);
      return pass;
    },
    giveBack(hookId) {
      hooks.get(hookId)?.takeBack();
    },
    reset() {
      for (const kept of [hooks, sources]) kept.clear();
    },
  };
}

/** The moments of the last minute, oldest first. What was refused is not among them. */
class Window {
  #moments: number[] = [];
  #first = 0;

  look(max: number, nowMs: number): Pass {
    this.#forget(nowMs);
    const excess = this.#moments.length - this.#first - max;
    if (excess < 0) return passed;
    // That one must have passed before there is room again; with a budget of nothing, none helps.
    const blocking = this.#moments[this.#first + excess] ?? nowMs;
    return { ok: false, retryAfterMs: blocking + WINDOW_MS + 1 - nowMs };
  }

  add(nowMs: number): void {
    this.#moments.push(nowMs);
  }

  takeBack(): void {
    if (this.#moments.length > this.#first) this.#moments.pop();
  }

  #forget(nowMs: number): void {
    while ((this.#moments[this.#first] ?? nowMs) < nowMs - WINDOW_MS) this.#first += 1;
    // Not with each one, or a full window would be copied all the time.
    if (this.#first * 2 <= this.#moments.length) return;
    this.#moments = this.#moments.slice(this.#first);
    this.#first = 0;
  }
}

/** Put behind all others, so that the one that was longest quiet is forgotten first. */
function touch<T>(kept: Map<string, T>, key: string, value: T): T {
  kept.delete(key);
  kept.set(key, value);
  if (kept.size > limits.hookWindowsMax) {
    for (const oldest of kept.keys()) {
      kept.delete(oldest);
      break;
    }
  }
  return value;
}
