import { makeId } from '../base/ids.ts';
import type { JsonObject } from '../base/json.ts';
import type { DirectiveDraft } from '../directive/directive.ts';
import type { JobDraft } from '../job/job.ts';
import { RUNTIME_SOURCE, type SignalDraft } from '../signal/signal.ts';
import { toEnvelope, type Consequences, type FollowRules } from './follow.ts';

/** The lifecycle signal of a directive's begin or end, and the jobs of the routes that wait for it. */
export function followDirective(
  directive: Pick<DirectiveDraft, 'id' | 'type' | 'target' | 'actor' | 'signalId'>,
  status: 'requested' | 'completed' | 'failed',
  rules: FollowRules,
): Consequences {
  const { id, type, target, actor } = directive;
  const signalId = status === 'requested' ? makeId() : directive.signalId;
  const payload: JsonObject = { directive_id: id, type, target, actor, status };
  const signal: SignalDraft = {
    id: signalId,
    type: `directive.${status}`,
    source: RUNTIME_SOURCE,
    subjectType: 'directive',
    subjectId: id,
    data: JSON.stringify(payload),
    hops: 1,
    correlationId: id,
  };
  const targets = rules.targetsOf({ source: RUNTIME_SOURCE, type: signal.type });
  const envelope = toEnvelope({ type: signal.type, payload }, RUNTIME_SOURCE, signalId, Date.now());
  const jobs = targets.map((wanted, place): JobDraft => ({
    id: makeId(),
    plugin: wanted.plugin,
    command: wanted.command,
    payload: wanted.command === 'handle' ? envelope : JSON.stringify(payload),
    submittedBy: 'route',
    actor: RUNTIME_SOURCE,
    maxAttempts: wanted.maxAttempts,
    sourceEventId: signalId,
    idempotencyKey: `${signalId}:${place}`,
    hops: 1,
    runtimeCaused: true,
  }));
  return { signals: [signal], jobs };
}
