import { limits } from '../base/limits.ts';

/**
 * Limits per minute for each webhook and each source. Verified deliveries spend the
 * budget of the webhook, and failed ones the budget of the source. So a sender without the secret
 * can't use up the budget of the webhook. Time is an argument, in milliseconds of any monotonic clock.
 */
export interface WebhookLimiter {
  /** Says if a source may fail once more. */
  checkSource(source: string, nowMs: number): LimitResult;
  /** Records a delivery that was not verified. */
  chargeSource(source: string, nowMs: number): void;
  /** Spends one verified delivery, if the budget allows it. */
  spend(webhookId: string, perMinute: number, nowMs: number): LimitResult;
  /**
   * Returns the last spent delivery, because it started nothing. A copied delivery spends no
   * budget.
   */
  refund(webhookId: string): void;
  reset(): void;
}

export type LimitResult =
  | { readonly ok: true }
  | { readonly ok: false; readonly retryAfterMs: number };

const WINDOW_MS = 60 * 1000;
const passed: LimitResult = { ok: true };

export function createWebhookLimiter(): WebhookLimiter {
  const webhooks = new Map<string, Window>();
  const sources = new Map<string, Window>();
  const open = (windows: Map<string, Window>, key: string): Window =>
    touch(windows, key, windows.get(key) ?? new Window());
  return {
    checkSource(source, nowMs) {
      return sources.get(source)?.check(limits.webhookFailuresMax, nowMs) ?? passed;
    },
    chargeSource(source, nowMs) {
      const window = open(sources, source);
      if (window.check(limits.webhookFailuresMax, nowMs).ok) window.add(nowMs);
    },
    spend(webhookId, perMinute, nowMs) {
      const window = open(webhooks, webhookId);
      const pass = window.check(perMinute, nowMs);
      if (pass.ok) window.add(nowMs);
      return pass;
    },
    refund(webhookId) {
      webhooks.get(webhookId)?.removeLast();
    },
    reset() {
      for (const windows of [webhooks, sources]) windows.clear();
    },
  };
}

/** The times of the last minute, oldest first. Refused deliveries are not among them. */
class Window {
  #moments: number[] = [];
  #first = 0;

  check(max: number, nowMs: number): LimitResult {
    this.#forget(nowMs);
    const excess = this.#moments.length - this.#first - max;
    if (excess < 0) return passed;
    // This time must leave the window before there is room again. With a budget of zero, there
    // never is.
    const blocking = this.#moments[this.#first + excess] ?? nowMs;
    return { ok: false, retryAfterMs: blocking + WINDOW_MS + 1 - nowMs };
  }

  add(nowMs: number): void {
    this.#moments.push(nowMs);
  }

  removeLast(): void {
    if (this.#moments.length > this.#first) this.#moments.pop();
  }

  #forget(nowMs: number): void {
    while ((this.#moments[this.#first] ?? nowMs) < nowMs - WINDOW_MS) this.#first += 1;
    // Not on every call, or a full window would be copied all the time.
    if (this.#first * 2 <= this.#moments.length) return;
    this.#moments = this.#moments.slice(this.#first);
    this.#first = 0;
  }
}

/** Moves an entry to the end, so that the longest idle one is dropped first. */
function touch<T>(entries: Map<string, T>, key: string, value: T): T {
  entries.delete(key);
  entries.set(key, value);
  if (entries.size > limits.webhookWindowsMax) {
    for (const oldest of entries.keys()) {
      entries.delete(oldest);
      break;
    }
  }
  return value;
}

/** Counts deliveries over the rate limit in the memory of this process, for a while. */
export interface RejectedCounter {
  note(webhookId: string, nowMs: number): void;
  /** The number of recent ones. */
  count(webhookId: string, nowMs: number): number;
}

export function createRejectedCounter(): RejectedCounter {
  const streaks = new Map<string, { readonly count: number; readonly lastMs: number }>();
  const count = (webhookId: string, nowMs: number): number => {
    const known = streaks.get(webhookId);
    return known === undefined || nowMs - known.lastMs > limits.webhookThrottledMs
      ? 0
      : known.count;
  };
  return {
    note(webhookId, nowMs) {
      const next = { count: count(webhookId, nowMs) + 1, lastMs: nowMs };
      // Moved to the end, so that the longest idle one is dropped first.
      streaks.delete(webhookId);
      streaks.set(webhookId, next);
      const [oldest = webhookId] = streaks.keys();
      if (streaks.size > limits.webhookWindowsMax) streaks.delete(oldest);
    },
    count,
  };
}
