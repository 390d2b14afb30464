import type { JsonObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import type { DeliveryRow, WebhookRow } from './types.ts';
import {
  findAgentOutcome,
  type AgentJob,
  type AgentOutcome,
  type DeliveryOutcome,
} from './agent-outcome.ts';

/** Finds the outcome of each webhook's last delivery, by webhook id. */
export async function findLastOutcomes(
  ledger: LedgerSubset<
    'deliveries.listLast' | 'deliveries.listAgentJobs' | 'deliveries.listTargets'
  >,
  webhooks: readonly WebhookRow[],
): Promise<ReadonlyMap<string, DeliveryOutcome>> {
  const agents = new Set(webhooks.filter(isForAgent).map(({ id }) => id));
  const [first, second] = webhooks;
  if (first === undefined) return new Map();
  const last = await ledger.deliveries.listLast(second === undefined ? first.id : undefined);
  const outcomes = await findOutcomes(ledger, last, ({ webhookId }) => agents.has(webhookId));
  return new Map(
    last.flatMap(({ id, webhookId }) => {
      const outcome = outcomes.get(id);
      return outcome === undefined ? [] : [[webhookId, outcome] as const];
    }),
  );
}

/** Finds the outcomes of deliveries by their ids: of the agent, else of the target's job or run. */
export async function findOutcomes(
  ledger: LedgerSubset<'deliveries.listAgentJobs' | 'deliveries.listTargets'>,
  deliveries: readonly DeliveryRow[],
  isAgents?: (delivery: DeliveryRow) => boolean,
): Promise<ReadonlyMap<string, DeliveryOutcome>> {
  const agentOutcomes = await findAgentOutcomes(ledger, deliveries, isAgents);
  const rest = deliveries.filter(({ id }) => !agentOutcomes.has(id));
  const targets = await ledger.deliveries.listTargets(
    rest.flatMap(({ signalId }) => signalId ?? []),
  );
  // The last one counts, because a retry, a replay or a revival comes later.
  const bySignal = new Map(targets.map((target) => [target.signalId, target]));
  const outcomes = new Map<string, DeliveryOutcome>(agentOutcomes);
  for (const { id, signalId } of rest) {
    const target = bySignal.get(signalId ?? '');
    if (target !== undefined) outcomes.set(id, { status: target.status });
  }
  return outcomes;
}

/** Finds the outcomes of the deliveries that an agent was notified of. */
export async function findAgentOutcomes(
  ledger: LedgerSubset<'deliveries.listAgentJobs'>,
  deliveries: readonly DeliveryRow[],
  isAgents: (delivery: DeliveryRow) => boolean = hasErrorWord,
): Promise<ReadonlyMap<string, AgentOutcome>> {
  const signals = deliveries.flatMap(({ signalId }) => signalId ?? []);
  const jobs = new Map<string, AgentJob[]>();
  for (const job of await ledger.deliveries.listAgentJobs(signals)) {
    jobs.set(job.signalId, [...(jobs.get(job.signalId) ?? []), job]);
  }
  return new Map(
    deliveries.flatMap((delivery) => {
      const own = jobs.get(delivery.signalId ?? '') ?? [];
      const outcome = findAgentOutcome(delivery, own, isAgents(delivery));
      return outcome === undefined ? [] : [[delivery.id, outcome] as const];
    }),
  );
}

/** A failed delivery doesn't record its target. Only those to agents begin with an error word. */
function hasErrorWord({ reason }: DeliveryRow): boolean {
  return reason?.startsWith('error:') === true;
}

function isForAgent({ settings }: WebhookRow): boolean {
  return (parseJson(settings) as JsonObject)['mode'] !== undefined;
}
