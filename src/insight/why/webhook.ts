import { quoteShell } from '../../base/text.ts';
import type { Job } from '../../job/job.ts';
import type { DeliveryRow, WebhookRow } from '../../webhook/types.ts';
import type { Run } from '../../pipeline/run/run.ts';
import type { AgentOutcome } from '../../webhook/agent-outcome.ts';
import {
  toFirstLine,
  formatCount,
  toExplanation,
  type ExplanationCause,
  type Explanation,
  type ExplanationFact,
} from './explanation.ts';
import { credentialKeyMissing, type MissingKey } from '../findings/credentials.ts';
import { partPaused } from '../findings/paused.ts';
import { webhookStranded } from '../findings/webhooks.ts';
import { toFindingCause } from './finding.ts';
import { describeStartedJob, describeStartedRun, describeStarted } from './signal.ts';
import type { ServiceFacts } from './facts.ts';
import { listServiceCauses, orderRepairs } from './waits.ts';
import type { DeliveryWork } from '../../webhook/shapes.operations.ts';

/** The records about a webhook and its last deliveries. */
export interface WebhookFacts {
  readonly row: WebhookRow;
  readonly isEnabled: boolean;
  /** The configuration has a listener for deliveries. */
  readonly hasListener: boolean;
  readonly ratePerMinute: number;
  /** Recent deliveries that exceeded the rate limit. */
  readonly refusedCount: number;
  readonly service: ServiceFacts;
  /** The key that sealed its secret, if this process doesn't have it. */
  readonly missingKey?: MissingKey | undefined;
  /** Why its target can't be started. Undefined if it can. */
  readonly missing: string | undefined;
  /** Newest first. */
  readonly deliveries: readonly DeliveryRow[];
  /** The jobs and runs that the last delivery started, newest first. */
  readonly jobs: readonly Job[];
  readonly runs: readonly Run[];
  /** The outcome of the last delivery, if its target is an agent. */
  readonly outcome?: AgentOutcome | undefined;
}

/** Explains whether a webhook accepts deliveries, or what became of the last one. */
export function explainWebhook(facts: WebhookFacts): Explanation {
  const { row, isEnabled, deliveries } = facts;
  const state = isEnabled ? 'enabled' : 'disabled';
  const subject = { kind: 'webhook', id: row.id, state } as const;
  const blockers = listBlockers(facts);
  const [first = describeLastDelivery(facts), ...others] = blockers;
  // Without a blocker, the last delivery is the verdict already.
  const shown = blockers.length === 0 ? deliveries.slice(1) : deliveries;
  const origin = [...shown.slice(0, DELIVERIES_SHOWN).map(describeDelivery), describeCreation(row)];
  const more = [
    `ductile webhook test ${quoteShell(row.id)}`,
    `ductile webhook deliveries ${quoteShell(row.id)}`,
  ];
  return toExplanation(subject, [first, ...others], origin, more, { blockers });
}

const DELIVERIES_SHOWN = 3;

function listBlockers({
  row,
  isEnabled,
  hasListener,
  ratePerMinute,
  refusedCount,
  service,
  missing,
  missingKey,
}: WebhookFacts): ExplanationCause[] {
  const causes = orderRepairs([
    ...listServiceCauses(service),
    ...(missingKey === undefined
      ? []
      : [toFindingCause(credentialKeyMissing.describe(missingKey))]),
  ]);
  if (!isEnabled) {
    const author = { actor: row.updatedBy, at: row.updatedAt };
    causes.push(toFindingCause(partPaused.describe({ noun: 'webhook', name: row.id, author })));
  }
  if (!hasListener) {
    causes.push({
      fact: 'nothing listens for deliveries',
      evidence: 'neither webhooks.listen nor api.enabled is set',
      movesBy: 'it accepts deliveries when one of them is set and the service is restarted',
      commands: ['ductile config set webhooks.listen=127.0.0.1:8081 --apply'],
    });
  }
  if (ratePerMinute === 0) {
    causes.push({
      fact: 'it accepts no deliveries: its rate limit is 0 per minute',
      evidence: 'rate_limit_per_minute',
      commands: [`ductile webhook edit ${quoteShell(row.id)} --rate-limit-per-minute 600`],
    });
  }
  if (refusedCount > 0 && ratePerMinute > 0) {
    causes.push({
      fact: `${formatCount(refusedCount, 'delivery', 'deliveries')} exceeded its rate limit`,
      evidence: `its limit is ${ratePerMinute} per minute; recent deliveries to this process`,
      movesBy: 'senders got the status 429 and a Retry-After header',
      commands: [
        `ductile webhook edit ${quoteShell(row.id)} --rate-limit-per-minute ${ratePerMinute * 2}`,
      ],
    });
  }
  if (missing !== undefined) {
    causes.push(toFindingCause(webhookStranded.describe({ id: row.id, reason: missing })));
  }
  return causes;
}

function describeLastDelivery(facts: WebhookFacts): ExplanationCause {
  const { row, deliveries, ratePerMinute } = facts;
  const [last] = deliveries;
  if (last === undefined) {
    return {
      fact: 'no deliveries are recorded',
      evidence: `its path is /hooks/${row.id}, and its rate limit is ${ratePerMinute} per minute`,
      movesBy: 'it waits for its sender',
    };
  }
  const { fact, evidence, at } = describeDelivery(last);
  if (last.verdict !== 'accepted' || last.signalId === null) {
    return {
      fact: `the last delivery: ${fact}`,
      evidence,
      at,
      commands: listDeliveryCommands(last, row),
    };
  }
  const started = listLastStarted(facts);
  const bad = started.filter(({ isBad }) => isBad);
  return {
    fact: `the last delivery: ${fact}; ${describeStartedWork(facts.outcome, started)}`,
    evidence,
    at,
    commands: [
      ...bad.slice(0, 1).map(({ id }) => `ductile why ${id}`),
      ...(bad.length === 0 ? [] : [`ductile webhook replay ${last.id}`]),
      `ductile why ${last.signalId}`,
    ],
  };
}

interface StartedWork {
  readonly id: string;
  readonly fact: string;
  readonly isBad: boolean;
}

/** Returns the last job of each command and the last run of each pipeline, failures first. */
function listLastStarted({ jobs, runs }: WebhookFacts): StartedWork[] {
  // The run stands for the jobs of its steps.
  const own = jobs.filter(({ runId }) => runId === null);
  const all = [
    ...own.map(
      (job) => [`${job.plugin} ${job.command}`, toStarted(job, describeStartedJob(job))] as const,
    ),
    ...runs.map(
      (run) => [`pipeline ${run.pipeline}`, toStarted(run, describeStartedRun(run))] as const,
    ),
  ];
  const last = [...new Map(all.toReversed()).values()];
  return last.toSorted((a, b) => Number(b.isBad) - Number(a.isBad));
}

const badStates = new Set<string>(['failed', 'timed_out', 'dead', 'halted', 'cancelled']);

function toStarted({ id, status }: Job | Run, { fact }: ExplanationFact): StartedWork {
  return { id, fact, isBad: badStates.has(status) };
}

function describeStartedWork(
  outcome: AgentOutcome | undefined,
  started: readonly StartedWork[],
): string {
  if (outcome !== undefined) {
    const detail = outcome.detail === null ? '' : ` (${toFirstLine(outcome.detail)})`;
    return `its agent: ${outcome.status}${detail}`;
  }
  if (started.length === 0) return 'no work that it started is recorded';
  const named = started.slice(0, STARTED_SHOWN).map(({ fact }) => fact);
  const more = started.length - named.length;
  return [...named, ...(more === 0 ? [] : [`${more} more`])].join(', ');
}

const STARTED_SHOWN = 3;

function listDeliveryCommands({ verdict, id }: DeliveryRow, row: WebhookRow): string[] {
  if (verdict === 'accepted') return [];
  if (verdict === 'failed') return [`ductile webhook replay ${id}`];
  return [
    `ductile webhook show ${quoteShell(row.id)}`,
    `ductile webhook rotate ${quoteShell(row.id)}`,
  ];
}

function describeDelivery(delivery: DeliveryRow): ExplanationFact {
  const { verdict, reason, source, signalId, duplicates, receivedAt } = delivery;
  const again = duplicates === 0 ? '' : `, and arrived ${formatCount(duplicates, 'time')} again`;
  const why = reason === null ? '' : ` (${toFirstLine(reason)})`;
  const record = signalId === null ? `delivery ${delivery.id}` : `signal ${signalId}`;
  return {
    fact: `${verdict}${why}, from ${source}${again}`,
    evidence: record,
    at: receivedAt,
  };
}

function describeCreation({ createdBy, createdAt, triggerCount }: WebhookRow): ExplanationFact {
  const fact = `${createdBy} created it`;
  return {
    fact,
    evidence: `${formatCount(triggerCount, 'delivery', 'deliveries')} accepted since`,
    at: createdAt,
  };
}

export interface DeliveryFacts extends DeliveryWork {
  readonly delivery: DeliveryRow;
  /** Its webhook still exists. */
  readonly hasWebhook: boolean;
  /** It can be delivered again, to its webhook or to an endpoint of the configuration. */
  readonly isReplayable: boolean;
}

/** Explains why a delivery was accepted or not, and what it started. */
export function explainDelivery(facts: DeliveryFacts): Explanation {
  const { id, webhookId, verdict } = facts.delivery;
  const subject = { kind: 'delivery', id, state: verdict } as const;
  const { fact, evidence, at } = describeDelivery(facts.delivery);
  const origin = {
    fact: `it was sent to the webhook ${webhookId}`,
    evidence: webhookId.startsWith('/') ? webhookId : `/hooks/${webhookId}`,
  };
  const commands = [...listCommands(facts), `ductile webhook delivery ${id}`];
  const first = { fact: `it was ${fact}`, evidence, at };
  return toExplanation(subject, [first, ...describeStarted(facts)], [origin], commands);
}

function listCommands({ delivery, hasWebhook, isReplayable, jobs, runs }: DeliveryFacts): string[] {
  const { id, webhookId, signalId } = delivery;
  if (signalId === null) return hasWebhook ? [`ductile webhook show ${quoteShell(webhookId)}`] : [];
  const started = [...jobs.slice(0, 1), ...runs.slice(0, 1)].map((one) => one.id);
  return [
    ...(started.length === 0 ? [signalId] : started).map((one) => `ductile why ${one}`),
    ...(isReplayable ? [`ductile webhook replay ${id}`] : []),
  ];
}
