import { quoteShell } from '../../base/text.ts';
import type { DeliveryRow } from '../../webhook/types.ts';
import type { Started } from '../../webhook/shapes.operations.ts';
import { toExplanation, type Explanation } from './explanation.ts';
import { tellStarted } from './signal.ts';
import { tellDelivery } from './webhook.ts';

export interface DeliveryFacts extends Started {
  readonly delivery: DeliveryRow;
  /** Whether what it came to can still be shown. */
  readonly hasWebhook: boolean;
  /** Whether what it came to would take it again: an endpoint of the configuration would, too. */
  readonly isReplayable: boolean;
}

/** Why something that was delivered was taken or not, and what came of it. */
export function explainDelivery(facts: DeliveryFacts): Explanation {
  const { id, hookId, verdict } = facts.delivery;
  const subject = { kind: 'delivery', id, state: verdict } as const;
  const { fact, evidence, at } = tellDelivery(facts.delivery);
  const origin = {
    fact: `it came to the webhook ${hookId}`,
    evidence: hookId.startsWith('/') ? hookId : `/hooks/${hookId}`,
  };
  const commands = [...remedies(facts), `ductile webhook delivery ${id}`];
  const first = { fact: `it was ${fact}`, evidence, at };
  return toExplanation(subject, [first, ...tellStarted(facts)], [origin], commands);
}

function remedies({ delivery, hasWebhook, isReplayable, jobs, runs }: DeliveryFacts): string[] {
  const { id, hookId, signalId } = delivery;
  if (signalId === null) return hasWebhook ? [`ductile webhook show ${quoteShell(hookId)}`] : [];
  const started = [...jobs.slice(0, 1), ...runs.slice(0, 1)].map((one) => one.id);
  return [
    ...(started.length === 0 ? [signalId] : started).map((one) => `ductile why ${one}`),
    ...(isReplayable ? [`ductile webhook replay ${id}`] : []),
  ];
}
