import type { JsonObject } from '../base/json.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { DeliveryRow, WebhookRow } from '../ledger/webhooks.ts';
import { outcomeOf, type AgentJob, type AgentOutcome } from '../webhook/outcome.ts';

type Outcomes = ReadonlyMap<string, AgentOutcome>;

/** What became of the last delivery to webhooks that tell an agent, by their ids. */
export async function lastOutcomes(
  ledger: Pick<Ledger, 'lastDeliveries' | 'agentJobs'>,
  hooks: readonly WebhookRow[],
): Promise<Outcomes> {
  const agents = new Set(hooks.filter(isForAgent).map(({ id }) => id));
  const [only] = agents.size === 1 ? agents : [];
  const last = agents.size === 0 ? [] : await ledger.lastDeliveries(only);
  const theirs = last.filter(({ hookId }) => agents.has(hookId));
  const outcomes = await outcomesOf(ledger, theirs, () => true);
  return new Map(
    theirs.flatMap(({ id, hookId }) => {
      const outcome = outcomes.get(id);
      return outcome === undefined ? [] : [[hookId, outcome] as const];
    }),
  );
}

/** What became of deliveries, by their ids, as far as an agent was told of them. */
export async function outcomesOf(
  ledger: Pick<Ledger, 'agentJobs'>,
  deliveries: readonly DeliveryRow[],
  isAgents: (delivery: DeliveryRow) => boolean = hasWord,
): Promise<Outcomes> {
  const signals = deliveries.flatMap(({ signalId }) => signalId ?? []);
  const jobs = new Map<string, AgentJob[]>();
  for (const job of await ledger.agentJobs(signals)) {
    jobs.set(job.signalId, [...(jobs.get(job.signalId) ?? []), job]);
  }
  return new Map(
    deliveries.flatMap((delivery) => {
      const told = jobs.get(delivery.signalId ?? '') ?? [];
      const outcome = outcomeOf(delivery, told, isAgents(delivery));
      return outcome === undefined ? [] : [[delivery.id, outcome] as const];
    }),
  );
}

/** What its webhook was for then is on record in the word alone. */
function hasWord({ reason }: DeliveryRow): boolean {
  return reason?.startsWith('error:') === true;
}

function isForAgent({ settings }: WebhookRow): boolean {
  return (JSON.parse(settings) as JsonObject)['mode'] !== undefined;
}
