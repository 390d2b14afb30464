import { fromTimestamp } from '../base/clock.ts';
import { DuctileError } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { replayDeliveryType, type DeliveryChoice } from './change-directives.ts';
import type { DeliveryRow } from './types.ts';
import { deliveryEventIn } from '../signal/signal.ts';
import { findChildHops } from '../job/enqueue.service.ts';
import type { Webhook } from './webhook.ts';
import type { DirectiveDefinition } from '../directive/define.service.ts';
import { findEndpoint } from './store.service.ts';
import type { WebhookIntake } from './webhooks.ts';
import { describeTarget } from './secrets.service.ts';
import { draftEmission } from './accept.service.ts';
import { maskPayload } from '../signal/mask.ts';
import { openPayloads } from '../signal/seal.service.ts';
import { toRunPayload } from '../pipeline/language/pipeline.ts';
import type { LedgerContext } from '../engine/context.ts';

/** What was delivered is handled again in the name of its signal, by what its webhook starts now. */
export function replayDeliveryDirective(
  context: LedgerContext,
  intake: WebhookIntake,
): DirectiveDefinition<DeliveryChoice> {
  const { ledger, vault, quota, commits } = context;
  return {
    ...replayDeliveryType,
    async plan({ delivery_id: id }) {
      const { webhook } = await find(id, context, intake);
      return [`The delivery would be handled once more: ${describeTarget(webhook)}.`];
    },
    async execute({ delivery_id: id }, { actor }) {
      const { delivery, webhook } = await find(id, context, intake);
      const [signal] = await ledger.signals.list({ id: delivery.signalId ?? '', limit: 1 });
      if (signal === undefined) {
        throw new DuctileError('SIGNAL_NOT_FOUND', 'the signal of that delivery is gone');
      }
      const [exact] = await openPayloads([signal], ledger, vault);
      if (exact === undefined || 'refused' in exact)
        throw exact?.refused ?? new Error('no payload');
      const delivered = {
        webhookId: delivery.webhookId,
        title: webhook.title,
        target: webhook.target,
        sourceEventId: signal.sourceEventId ?? delivery.id,
        payload: toRunPayload(exact.payload),
        event: undefined,
        about: deliveryEventIn(signal),
        again: { signalId: signal.id, atMs: fromTimestamp(signal.occurredAt) },
        hops: Math.max(signal.hops, await findChildHops(actor, ledger)),
      };
      // The signal is there: of this one only what follows is written.
      const { emission } = await draftEmission(delivered, context.generation, maskPayload);
      const brings = { jobs: emission.jobs.length + emission.runs.length, signals: 0 };
      const { news } = await quota.within(brings, () =>
        ledger.signals.emit([{ ...emission, rerun: true }]),
      );
      commits.publish(news);
      const result: JsonObject = {
        signal_id: signal.id,
        jobs: emission.jobs.length,
        runs: emission.runs.length,
      };
      return result;
    },
  };
}

async function find(
  id: string,
  { ledger, config }: LedgerContext,
  intake: WebhookIntake,
): Promise<{ delivery: DeliveryRow; webhook: Webhook }> {
  const [delivery] = await ledger.deliveries.list({ id, limit: 1 });
  if (delivery?.signalId === undefined || delivery.signalId === null) {
    const message = `no delivery ${id} was taken`;
    throw new DuctileError('DELIVERY_NOT_FOUND', message, { place: 'delivery_id' });
  }
  const { webhookId } = delivery;
  const known = await intake.store.find(webhookId);
  const webhook = known?.webhook ?? findEndpoint(config.webhooks, webhookId);
  if (webhook !== undefined) return { delivery, webhook };
  throw new DuctileError('WEBHOOK_NOT_FOUND', `there is no webhook ${webhookId} any more`);
}
