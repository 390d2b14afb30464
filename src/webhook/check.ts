import type { JsonObject } from '../base/json.ts';
import type { BodyFault, ReadBody } from './body.ts';
import type { Pass } from './rate-limit.ts';
import type { Accepted, Refusal, Verdict } from './verify/verdict.ts';

/**
 * In which order a delivery is checked, and so what a stranger can learn. `strict` looks at nothing
 * that was not verified; `compat` is the order and the words of document 4, which read the body first.
 */
export const orders = ['strict', 'compat'] as const;
export type Order = (typeof orders)[number];

/** What is known of a delivery. Each is asked at most once, and only when all before it was well. */
export interface Facts {
  readonly source: () => Pass;
  /** So that it costs little to verify it. */
  readonly isSmall: () => boolean;
  /** More than any webhook takes. */
  readonly isOversize: () => boolean;
  /** More than this one takes. */
  readonly isTooLarge: () => boolean;
  readonly isMediaAccepted: () => boolean;
  readonly hook: () => 'unknown' | 'disabled' | 'enabled';
  readonly verdict: () => Verdict;
  /** Spends the hook's budget. */
  readonly rate: () => Pass;
  readonly body: () => ReadBody;
}

/** Where it came in: a static endpoint answers a wrong signature as document 1 has it. */
export type Entrance = 'managed' | 'static';

export type Decision = Go | Stop;

export interface Go {
  readonly kind: 'go';
  readonly accepted: Accepted;
  readonly payload: JsonObject;
  readonly event: JsonObject | undefined;
}

export interface Stop {
  readonly kind: 'stop';
  readonly answer: Answer;
  /** For the delivery's row and the log, never for who sent it. */
  readonly outcome: Outcome;
  /** What exactly was wrong; whoever sent it may have chosen the words. */
  readonly detail?: string;
  /** Whether it counts against its source. */
  readonly isCharged: boolean;
}

export interface Answer {
  readonly status: number;
  readonly body: JsonObject;
  readonly retryAfterSeconds?: number;
}

export type Outcome =
  | 'challenge'
  | 'source_limited'
  | 'hook_limited'
  | 'too_large'
  | 'hook_unknown'
  | 'hook_disabled'
  | BodyFault
  | Refusal;

/**
 * Whoever has failed too often hears that instead of why. Who shares its address and has a proof is
 * let in all the same, as long as it costs little to look at that.
 */
export function decide(order: Order, entrance: Entrance, facts: Facts): Decision {
  const pass = facts.source();
  if (!pass.ok && !facts.isSmall()) return limited('source_limited', pass.retryAfterMs);
  const decision =
    order === 'strict' ? decideStrictly(entrance, facts) : decideCompatibly(entrance, facts);
  const isStranger = decision.kind === 'stop' && decision.isCharged;
  return pass.ok || !isStranger ? decision : limited('source_limited', pass.retryAfterMs);
}

/** Only for what is committed. The same delivery again is answered well, and starts nothing. */
export function answerAccepted(hookId: string, signalId: string, isDuplicate: boolean): Answer {
  const body = { accepted: true, hook_id: hookId, signal_id: signalId };
  return isDuplicate ? { status: 200, body: { ...body, duplicate: true } } : { status: 202, body };
}

function decideStrictly(entrance: Entrance, facts: Facts): Decision {
  return (
    (facts.isOversize() ? tooLarge() : undefined) ??
    checkHookQuietly(facts) ??
    checkProof(entrance, facts, () => {
      // Its own limit would tell a stranger that there is such a webhook.
      if (facts.isTooLarge()) return tooLarge(true);
      const body = facts.body();
      return body.ok ? body : refuseBody(body, true);
    })
  );
}

function decideCompatibly(entrance: Entrance, facts: Facts): Decision {
  const early =
    (facts.isMediaAccepted()
      ? undefined
      : stop(415, 'content_type_must_be_json', 'media_type_unsupported')) ??
    (facts.isTooLarge() ? tooLarge() : undefined);
  if (early !== undefined) return early;
  const body = facts.body();
  if (!body.ok) return refuseBody(body);
  return checkHookAloud(facts) ?? checkProof(entrance, facts, () => body);
}

/** A hook that is switched off looks like one that is not there. */
function checkHookQuietly({ hook }: Facts): Stop | undefined {
  const state = hook();
  if (state === 'enabled') return undefined;
  return stop(404, 'not_found', state === 'unknown' ? 'hook_unknown' : 'hook_disabled');
}

function checkHookAloud({ hook }: Facts): Stop | undefined {
  const state = hook();
  if (state === 'unknown') return stop(404, 'hook_not_found', 'hook_unknown');
  return state === 'disabled' ? stop(403, 'hook_disabled', 'hook_disabled') : undefined;
}

function checkProof(
  entrance: Entrance,
  { verdict: ask, rate }: Facts,
  readBody: () => (ReadBody & { ok: true }) | Stop,
): Decision {
  const verdict = ask();
  if (verdict.kind === 'refused') {
    return entrance === 'static'
      ? stop(403, 'forbidden', verdict.reason)
      : stop(401, 'unauthorized', verdict.reason);
  }
  if (verdict.kind === 'challenge') {
    const answer = { status: 200, body: { challenge: verdict.answer } };
    return { kind: 'stop', answer, outcome: 'challenge', isCharged: false };
  }
  const pass = rate();
  if (!pass.ok) return limited('hook_limited', pass.retryAfterMs);
  const body = readBody();
  if ('kind' in body) return body;
  return { kind: 'go', accepted: verdict, payload: body.payload, event: body.event };
}

function tooLarge(isVerified = false): Stop {
  return stop(413, 'payload_too_large', 'too_large', isVerified);
}

function refuseBody(
  { fault, message: detail }: Extract<ReadBody, { ok: false }>,
  isVerified = false,
): Stop {
  const status = fault === 'media_type_unsupported' ? 415 : 400;
  return { ...stop(status, fault, fault, isVerified), detail };
}

function limited(outcome: 'source_limited' | 'hook_limited', retryAfterMs: number): Stop {
  const retryAfterSeconds = Math.max(1, Math.ceil(retryAfterMs / 1000));
  const answer = { status: 429, body: { error: 'rate_limited' }, retryAfterSeconds };
  return { kind: 'stop', answer, outcome, isCharged: false };
}

/** Whoever comes no further than what anybody can send is charged for it. */
function stop(status: number, error: string, outcome: Outcome, isVerified = false): Stop {
  return { kind: 'stop', answer: { status, body: { error } }, outcome, isCharged: !isVerified };
}
