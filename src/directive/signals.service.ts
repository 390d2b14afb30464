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
import { addPackageSignal } from '../package/signals.ts';

/** A directive as its signals describe it, recorded or not yet. */
export type SignalledDirective = Pick<
  Directive,
  'id' | 'type' | 'target' | 'params' | 'actor' | 'actorRole' | 'signalId' | 'correlationId'
> & {
  /** True if its signals start nothing, so that a handler of them doesn't trigger itself. */
  readonly isQuiet?: boolean;
};

const ends: ReadonlySet<DirectiveMoment> = new Set(['completed', 'failed', 'cancelled']);

/** Returns the lifecycle signal of a moment of a directive, and what follows from it. */
export function followDirective(
  directive: SignalledDirective,
  moment: DirectiveMoment,
  rules: FollowRules,
  failure?: DirectiveFailure,
): SignalConsequences {
  const { id, type, target, actor } = directive;
  const why = failure === undefined ? {} : describeFailure(failure);
  const payload: JsonObject = { directive_id: id, type, target, actor, status: moment, ...why };
  const signal: SignalDraft = {
    id: ends.has(moment) ? directive.signalId : makeId(),
    type: `directive.${moment}`,
    source: RUNTIME_SOURCE,
    subjectType: 'directive',
    subjectId: id,
    data: JSON.stringify(payload),
    metadata: JSON.stringify(metadataOf(actor, directive.actorRole)),
    hops: 1,
    correlationId: directive.correlationId,
    causationId: id,
  };
  const about = { moment, tenant: rules.tenant ?? ROOT, why };
  const all = addPackageSignal({ signal, payload }, directive, about);
  if (directive.isQuiet === true || isInstallation(actor)) {
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

function describeFailure({ code, error }: DirectiveFailure): JsonObject {
  return { error_kind: code, error_message: maskText(error) };
}

/** The name of the root ledger in dedupe keys. */
const ROOT = 'root';

/** Returns the signals of a directive that starts with its request, in the order of one commit. */
export function followStart(directive: SignalledDirective, rules: FollowRules): SignalConsequences {
  return joinAll([
    followDirective(directive, 'requested', rules),
    followDirective(directive, 'started', rules),
  ]);
}

function joinAll(parts: readonly SignalConsequences[]): SignalConsequences {
  return {
    signals: parts.flatMap(({ signals }) => signals),
    jobs: parts.flatMap(({ jobs }) => jobs),
    runs: parts.flatMap(({ runs }) => runs),
  };
}

/** Returns the signals of both possible ends. */
export function followEnds(
  directive: SignalledDirective,
  rules: FollowRules,
): DirectiveInsert['ends'] {
  return {
    completed: followDirective(directive, 'completed', rules),
    failed: (failure) => followDirective(directive, 'failed', rules, failure),
  };
}
