import { makeId } from '../base/ids.ts';
import type { JsonObject } from '../base/json.ts';
import type { DirectiveDraft } from '../directive/directive.ts';
import { RUNTIME_SOURCE, type SignalDraft } from '../signal/signal.ts';
import type { Consequences, FollowRules } from './follow.ts';
import { followRuntime } from './follow-runtime.ts';

/** The lifecycle signal of a directive's begin or end, and what waits for it. */
export function followDirective(
  directive: Pick<DirectiveDraft, 'id' | 'type' | 'target' | 'actor' | 'signalId'>,
  status: 'requested' | 'completed' | 'failed',
  rules: FollowRules,
): Consequences {
  const { id, type, target, actor } = directive;
  const payload: JsonObject = { directive_id: id, type, target, actor, status };
  const signal: SignalDraft = {
    id: status === 'requested' ? makeId() : directive.signalId,
    type: `directive.${status}`,
    source: RUNTIME_SOURCE,
    subjectType: 'directive',
    subjectId: id,
    data: JSON.stringify(payload),
    hops: 1,
    correlationId: id,
  };
  return { signals: [signal], ...followRuntime(signal, { payload, context: {} }, rules) };
}
