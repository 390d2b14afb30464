import type { DirectiveMoment, Directive } from './directive.ts';
import { makeId } from '../base/ids.ts';
import type { JsonObject } from '../base/json.ts';
import { maskText } from '../base/secrets.ts';
import type { DirectiveInsert } from '../ledger/directive-work.ts';
import type { DirectiveFailure } from './types.ts';
import { metadataOf, RUNTIME_SOURCE, type SignalDraft } from '../signal/signal.ts';
import { noConsequences } from '../pipeline/follow-job.ts';
import type { SignalConsequences, FollowRules } from '../pipeline/follow-rules.ts';
import { followRuntime } from '../pipeline/follow-signal.ts';
import { isInstallation } from '../package/package.ts';
import { withPackage } from '../package/signals.ts';

/** What is told of a directive, on the ledger or before. */
export type Told = Pick<
  Directive,
  'id' | 'type' | 'target' | 'params' | 'actor' | 'actorRole' | 'signalId' | 'correlationId'
> & {
  /** It must not lead to its being asked for again. */
  readonly isQuiet?: boolean;
};

const ends: ReadonlySet<DirectiveMoment> = new Set(['completed', 'failed', 'cancelled']);

/** The lifecycle signal of a moment of a directive, and what waits for it. */
export function followDirective(
  told: Told,
  moment: DirectiveMoment,
  rules: FollowRules,
  failure?: DirectiveFailure,
): SignalConsequences {
  const { id, type, target, actor } = told;
  const why = failure === undefined ? {} : describeFailure(failure);
  const payload: JsonObject = { directive_id: id, type, target, actor, status: moment, ...why };
  const signal: SignalDraft = {
    id: ends.has(moment) ? told.signalId : makeId(),
    type: `directive.${moment}`,
    source: RUNTIME_SOURCE,
    subjectType: 'directive',
    subjectId: id,
    data: JSON.stringify(payload),
    metadata: JSON.stringify(metadataOf(actor, told.actorRole)),
    hops: 1,
    correlationId: told.correlationId,
    causationId: id,
  };
  const about = { moment, tenant: rules.tenant ?? ROOT, why };
  const all = withPackage({ signal, payload }, told, about);
  if (told.isQuiet === true || isInstallation(actor)) {
    const signals = all.map((one): SignalDraft => ({ ...one.signal, isQuiet: true }));
    return { ...noConsequences(), signals };
  }
  return joinAll(
    all.map((one) => ({
      signals: [one.signal],
      ...followRuntime(one.signal, { payload: one.payload, context: {} }, rules, Date.now()),
    })),
  );
}

/** Whoever is told that it failed should not have to ask why. */
function describeFailure({ code, error }: DirectiveFailure): JsonObject {
  return { error_kind: code, error_message: maskText(error) };
}

/** How keys name the ledger that belongs to no tenant. */
const ROOT = 'root';

/** Of one that begins when it is asked for: both in the same commit, in this order. */
export function followBegin(told: Told, rules: FollowRules): SignalConsequences {
  return joinAll([
    followDirective(told, 'requested', rules),
    followDirective(told, 'started', rules),
  ]);
}

function joinAll(parts: readonly SignalConsequences[]): SignalConsequences {
  return {
    signals: parts.flatMap(({ signals }) => signals),
    jobs: parts.flatMap(({ jobs }) => jobs),
    runs: parts.flatMap(({ runs }) => runs),
  };
}

/** Whichever its end will be. */
export function followEnds(told: Told, rules: FollowRules): DirectiveInsert['ends'] {
  return {
    completed: followDirective(told, 'completed', rules),
    failed: (failure) => followDirective(told, 'failed', rules, failure),
  };
}
