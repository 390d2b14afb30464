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
import { describeStartedJob, describeStartedRun, describeStarted } from './signal.ts';
import type { ServiceFacts } from './wait-facts.ts';
import { listServiceCauses, orderRepairs } from './waits.ts';
import type { Started } from '../../webhook/shapes.operations.ts';

export interface WebhookFacts {
  readonly row: WebhookRow;
  readonly isEnabled: boolean;
  /** The configuration has a listener that deliveries can come to. */
  readonly hasListener: boolean;
  readonly ratePerMinute: number;
  /** Deliveries of late that came faster than it takes them. */
  readonly refusedCount: number;
  readonly service: ServiceFacts;
  /** The key that sealed its secret, if this process doesn't have it. */
  readonly missingKey?: string | undefined;
  /** Why it is on and has nothing to start. */
  readonly missing: string | undefined;
  /** The newest first. */
  readonly deliveries: readonly DeliveryRow[];
  /** Of the last delivery: what it started, the newest first. */
  readonly jobs: readonly Job[];
  readonly runs: readonly Run[];
  /** And what became of it, where an agent was told. */
  readonly outcome?: AgentOutcome | undefined;
}

/** Why a webhook takes what is delivered, or does not. */
export function explainWebhook(facts: WebhookFacts): Explanation {
  const { row, isEnabled, deliveries } = facts;
  const state = isEnabled ? 'enabled' : 'disabled';
  const subject = { kind: 'webhook', id: row.id, state } as const;
  const [first = lastVerdict(facts), ...others] = listBlockers(facts);
  const told = others.length + 1 > listBlockers(facts).length ? deliveries.slice(1) : deliveries;
  const origin = [...told.slice(0, DELIVERIES_TOLD).map(describeDelivery), describeCreation(row)];
  const more = [
    `ductile webhook test ${quoteShell(row.id)}`,
    `ductile webhook deliveries ${quoteShell(row.id)}`,
  ];
  return toExplanation(subject, [first, ...others], origin, more, {
    blockers: listBlockers(facts),
  });
}

const DELIVERIES_TOLD = 3;

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
  const causes = orderRepairs([...listServiceCauses(service), ...secretCause(row, missingKey)]);
  if (!isEnabled) {
    causes.push({
      fact: 'it is disabled, so nothing is taken',
      evidence: `changed by ${row.updatedBy}`,
      at: row.updatedAt,
      movesBy: 'it takes deliveries again when somebody enables it',
      commands: [`ductile webhook edit ${quoteShell(row.id)} --enabled=true`],
    });
  }
  if (!hasListener) {
    causes.push({
      fact: 'nothing listens for deliveries',
      evidence: 'neither webhooks.listen nor api.enabled is set',
      movesBy: 'it is heard when one of them is set and the service is started again',
      commands: ['ductile config set webhooks.listen=127.0.0.1:8081 --apply'],
    });
  }
  if (ratePerMinute === 0) {
    causes.push({
      fact: 'it takes no delivery at all: its limit is 0 for each minute',
      evidence: 'rate_limit_per_minute',
      commands: [`ductile webhook edit ${quoteShell(row.id)} --rate-limit-per-minute 600`],
    });
  }
  if (refusedCount > 0 && ratePerMinute > 0) {
    causes.push({
      fact: `${formatCount(refusedCount, 'delivery', 'deliveries')} came faster than it takes them`,
      evidence: `it takes ${ratePerMinute} for each minute; as this process saw it of late`,
      movesBy: 'senders were answered 429, and when to come again',
      commands: [
        `ductile webhook edit ${quoteShell(row.id)} --rate-limit-per-minute ${ratePerMinute * 2}`,
      ],
    });
  }
  if (missing !== undefined) {
    causes.push({
      fact: `it has nothing to start: ${missing}`,
      evidence: 'the configuration in force',
      movesBy: 'senders are asked to come again until it is there',
      commands: [`ductile webhook show ${quoteShell(row.id)}`],
    });
  }
  return causes;
}

function secretCause({ id }: WebhookRow, keyId: string | undefined): ExplanationCause[] {
  if (keyId === undefined) return [];
  return [
    {
      repair: 'secret',
      fact: "its secret can't be opened, so no delivery is accepted",
      evidence: `it is sealed with the key ${keyId}, which this process does not have`,
      movesBy:
        'put the key back (the file credential.key of the state directory, or its variable) and ' +
        'restart the service, or give the webhook a new secret',
      commands: [`ductile webhook rotate ${quoteShell(id)}`],
    },
  ];
}

function lastVerdict(facts: WebhookFacts): ExplanationCause {
  const { row, deliveries, ratePerMinute } = facts;
  const [last] = deliveries;
  if (last === undefined) {
    return {
      fact: 'nothing has ever been delivered to it that it could know',
      evidence: `its address is /hooks/${row.id}, and it takes ${ratePerMinute} for each minute`,
      movesBy: 'its sender has to deliver something',
    };
  }
  const { fact, evidence, at } = describeDelivery(last);
  if (last.verdict !== 'accepted' || last.signalId === null) {
    return { fact: `the last delivery: ${fact}`, evidence, at, commands: remedyOf(last, row) };
  }
  const started = lastOfEach(facts);
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

/** What was done again counts as it went the last time; bad news comes first. */
function lastOfEach({ jobs, runs }: WebhookFacts): StartedWork[] {
  // The steps of a run are told by the run.
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
  if (started.length === 0) return 'nothing that it started is on record';
  const named = started.slice(0, STARTED_TOLD).map(({ fact }) => fact);
  const more = started.length - named.length;
  return [...named, ...(more === 0 ? [] : [`${more} more`])].join(', ');
}

const STARTED_TOLD = 3;

function remedyOf({ verdict, id }: DeliveryRow, row: WebhookRow): string[] {
  if (verdict === 'accepted') return [];
  if (verdict === 'failed') return [`ductile webhook replay ${id}`];
  return [
    `ductile webhook show ${quoteShell(row.id)}`,
    `ductile webhook rotate ${quoteShell(row.id)}`,
  ];
}

export function describeDelivery(delivery: DeliveryRow): ExplanationFact {
  const { verdict, reason, source, signalId, duplicates, receivedAt } = delivery;
  const again = duplicates === 0 ? '' : `, and came ${formatCount(duplicates, 'time')} again`;
  const why = reason === null ? '' : ` (${toFirstLine(reason)})`;
  const record = signalId === null ? `delivery ${delivery.id}` : `signal ${signalId}`;
  return {
    fact: `${verdict}${why}, from ${source}${again}`,
    evidence: record,
    at: receivedAt,
  };
}

function describeCreation({ createdBy, createdAt, triggerCount }: WebhookRow): ExplanationFact {
  const fact = `${createdBy} opened it`;
  return {
    fact,
    evidence: `${formatCount(triggerCount, 'delivery', 'deliveries')} taken since`,
    at: createdAt,
  };
}

export interface DeliveryFacts extends Started {
  readonly delivery: DeliveryRow;
  /** Whether what it came to can still be shown. */
  readonly hasWebhook: boolean;
  /** Whether what it came to would take it again: an endpoint of the configuration would, too. */
  readonly isReplayable: boolean;
}

/** Why something that was delivered was taken or not, and what came of it. */
export function explainDelivery(facts: DeliveryFacts): Explanation {
  const { id, webhookId, verdict } = facts.delivery;
  const subject = { kind: 'delivery', id, state: verdict } as const;
  const { fact, evidence, at } = describeDelivery(facts.delivery);
  const origin = {
    fact: `it came to the webhook ${webhookId}`,
    evidence: webhookId.startsWith('/') ? webhookId : `/hooks/${webhookId}`,
  };
  const commands = [...remedies(facts), `ductile webhook delivery ${id}`];
  const first = { fact: `it was ${fact}`, evidence, at };
  return toExplanation(subject, [first, ...describeStarted(facts)], [origin], commands);
}

function remedies({ delivery, hasWebhook, isReplayable, jobs, runs }: DeliveryFacts): string[] {
  const { id, webhookId, signalId } = delivery;
  if (signalId === null) return hasWebhook ? [`ductile webhook show ${quoteShell(webhookId)}`] : [];
  const started = [...jobs.slice(0, 1), ...runs.slice(0, 1)].map((one) => one.id);
  return [
    ...(started.length === 0 ? [signalId] : started).map((one) => `ductile why ${one}`),
    ...(isReplayable ? [`ductile webhook replay ${id}`] : []),
  ];
}
