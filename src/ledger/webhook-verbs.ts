import type { Store } from './dialect.ts';
import { lastDeliveries, listDeliveries, noteDelivery, receive } from '../webhook/delivery.sql.ts';
import { listAgentJobs, listTargets } from '../webhook/delivery-work.sql.ts';
import { requireQueueRoom } from '../job/queue.sql.ts';
import { findWebhook, listWebhooks } from '../webhook/webhook.sql.ts';
import type { WebhookVerbs } from '../webhook/types.ts';

export function makeWebhookVerbs({ find, read, write }: Store): WebhookVerbs {
  return {
    webhooks: () => read(listWebhooks),
    webhook: (id) => find((session) => findWebhook(session, id)),
    receive: (deliveries, queueLimit) =>
      write(['enqueue'], async (tx) => {
        const work = deliveries.flatMap(({ emission: { jobs, runs } }) => [...jobs, ...runs]);
        if (queueLimit !== undefined) await requireQueueRoom(tx, queueLimit, work.length);
        return await receive(tx, deliveries);
      }),
    noteDelivery: (delivery) => write(['other'], (tx) => noteDelivery(tx, delivery)),
    deliveries: (filter) => read((session) => listDeliveries(session, filter)),
    lastDeliveries: (hookId) => read((session) => lastDeliveries(session, hookId)),
    agentJobs: (signalIds) => read((session) => listAgentJobs(session, signalIds)),
    targets: (signalIds) => read((session) => listTargets(session, signalIds)),
  };
}
