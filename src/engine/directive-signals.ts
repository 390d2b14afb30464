import { makeId } from '../base/ids.ts';
import type { JsonObject } from '../base/json.ts';
import type { Directive } from '../directive/directive.ts';
import { RUNTIME_SOURCE, type SignalDraft } from '../signal/signal.ts';
import type { Consequences, FollowRules } from './follow.ts';
import { followRuntime } from './follow-runtime.ts';

/** What is told of a directive, on the ledger or before. */
export type Told = Pick<
  Directive,
  'id' | 'type' | 'target' | 'actor' | 'signalId' | 'correlationId'
>;

type Moment = 'requested' | 'approved' | 'started' | 'completed' | 'failed' | 'cancelled';

const ends: ReadonlySet<Moment> = new Set(['completed', 'failed', 'cancelled']);

/** The lifecycle signal of a moment of a directive, and what waits for it. */
export function followDirective(told: Told, moment: Moment, rules: FollowRules): Consequences {
  const { id, type, target, actor } = told;
  const payload: JsonObject = { directive_id: id, type, target, actor, status: moment };
  const signal: SignalDraft = {
    id: ends.has(moment) ? told.signalId : makeId(),
    type: `directive.${moment}`,
    source: RUNTIME_SOURCE,
    subjectType: 'directive',
    subjectId: id,
    data: JSON.stringify(payload),
    hops: 1,
    correlationId: told.correlationId,
    causationId: id,
  };
  return { signals: [signal], ...followRuntime(signal, { payload, context: {} }, rules) };
}

/** Of one that begins when it is asked for: both in the same commit, in this order. */
export function followBegin(told: Told, rules: FollowRules): Consequences {
  const [asked, begun] = [
    followDirective(told, 'requested', rules),
    followDirective(told, 'started', rules),
  ];
  return {
    signals: [...asked.signals, ...begun.signals],
    jobs: [...asked.jobs, ...begun.jobs],
    runs: [...asked.runs, ...begun.runs],
  };
}

/** Whichever its end will be. */
export function followEnds(
  told: Told,
  rules: FollowRules,
): Record<'completed' | 'failed', Consequences> {
  return {
    completed: followDirective(told, 'completed', rules),
    failed: followDirective(told, 'failed', rules),
  };
}
