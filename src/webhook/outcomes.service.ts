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

/** What became of the last delivery to webhooks, by their ids. */
export async function lastOutcomes(
  ledger: LedgerSubset<
    'deliveries.listLast' | 'deliveries.listAgentJobs' | 'deliveries.listTargets'
  >,
  webhooks: readonly WebhookRow[],
): Promise<ReadonlyMap<string, DeliveryOutcome>> {
  const agents = new Set(webhooks.filter(isForAgent).map(({ id }) => id));
  const [only, more] = webhooks;
  if (only === undefined) return new Map();
  const last = await ledger.deliveries.listLast(more === undefined ? only.id : undefined);
  const outcomes = await outcomesOf(ledger, last, ({ webhookId }) => agents.has(webhookId));
  return new Map(
    last.flatMap(({ id, webhookId }) => {
      const outcome = outcomes.get(id);
      return outcome === undefined ? [] : [[webhookId, outcome] as const];
    }),
  );
}

/** What became of deliveries, by their ids: of their agents, else of the jobs or runs they were for. */
export async function outcomesOf(
  ledger: LedgerSubset<'deliveries.listAgentJobs' | 'deliveries.listTargets'>,
  deliveries: readonly DeliveryRow[],
  isAgents?: (delivery: DeliveryRow) => boolean,
): Promise<ReadonlyMap<string, DeliveryOutcome>> {
  const told = await agentOutcomesOf(ledger, deliveries, isAgents);
  const rest = deliveries.filter(({ id }) => !told.has(id));
  const targets = await ledger.deliveries.listTargets(
    rest.flatMap(({ signalId }) => signalId ?? []),
  );
  // What was made last counts: a retry, a replay, a revival.
  const bySignal = new Map(targets.map((target) => [target.signalId, target]));
  const outcomes = new Map<string, DeliveryOutcome>(told);
  for (const { id, signalId } of rest) {
    const target = bySignal.get(signalId ?? '');
    if (target !== undefined) outcomes.set(id, { status: target.status });
  }
  return outcomes;
}

/** As far as an agent was told of them. */
export async function agentOutcomesOf(
  ledger: LedgerSubset<'deliveries.listAgentJobs'>,
  deliveries: readonly DeliveryRow[],
  isAgents: (delivery: DeliveryRow) => boolean = hasWord,
): Promise<ReadonlyMap<string, AgentOutcome>> {
  const signals = deliveries.flatMap(({ signalId }) => signalId ?? []);
  const jobs = new Map<string, AgentJob[]>();
  for (const job of await ledger.deliveries.listAgentJobs(signals)) {
    jobs.set(job.signalId, [...(jobs.get(job.signalId) ?? []), job]);
  }
  return new Map(
    deliveries.flatMap((delivery) => {
      const told = jobs.get(delivery.signalId ?? '') ?? [];
      const outcome = findAgentOutcome(delivery, told, isAgents(delivery));
      return outcome === undefined ? [] : [[delivery.id, outcome] as const];
    }),
  );
}

/** What its webhook was for then is on record in the word alone. */
function hasWord({ reason }: DeliveryRow): boolean {
  return reason?.startsWith('error:') === true;
}

function isForAgent({ settings }: WebhookRow): boolean {
  return (parseJson(settings) as JsonObject)['mode'] !== undefined;
}
