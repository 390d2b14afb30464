import type { DeliveryRow, WebhookRow } from '../../ledger/webhooks.ts';
import {
  firstLine,
  plural,
  quote,
  toExplanation,
  type Cause,
  type Explanation,
  type Fact,
} from './answer.ts';
import { houseCauses, type HouseFacts } from './waits.ts';

export interface WebhookFacts {
  readonly row: WebhookRow;
  readonly isEnabled: boolean;
  readonly ratePerMinute: number;
  /** Deliveries of late that came faster than it takes them. */
  readonly turnedAway: number;
  readonly house: HouseFacts;
  /** What it names and is not there. */
  readonly missing: string | undefined;
  /** The newest first. */
  readonly deliveries: readonly DeliveryRow[];
}

/** Why a webhook takes what is delivered, or does not. */
export function explainWebhook(facts: WebhookFacts): Explanation {
  const { row, isEnabled, deliveries } = facts;
  const state = isEnabled ? 'enabled' : 'disabled';
  const subject = { kind: 'webhook', id: row.id, state } as const;
  const [first = lastVerdict(facts), ...others] = blocks(facts);
  const told = others.length + 1 > blocks(facts).length ? deliveries.slice(1) : deliveries;
  const origin = [...told.slice(0, DELIVERIES_TOLD).map(tellDelivery), made(row)];
  const more = [
    `ductile webhook test ${quote(row.id)}`,
    `ductile webhook deliveries ${quote(row.id)}`,
  ];
  return toExplanation(subject, [first, ...others], origin, more);
}

const DELIVERIES_TOLD = 3;

function blocks({
  row,
  isEnabled,
  ratePerMinute,
  turnedAway,
  house,
  missing,
}: WebhookFacts): Cause[] {
  const causes = houseCauses(house);
  if (!isEnabled) {
    causes.push({
      fact: 'it is disabled, so nothing is taken',
      evidence: `changed by ${row.updatedBy}`,
      at: row.updatedAt,
      movesBy: 'it takes deliveries again when somebody enables it',
      commands: [`ductile webhook edit ${quote(row.id)} --enabled=true`],
    });
  }
  if (ratePerMinute === 0) {
    causes.push({
      fact: 'it takes no delivery at all: its limit is 0 for each minute',
      evidence: 'rate_limit_per_minute',
      commands: [`ductile webhook edit ${quote(row.id)} --rate-limit-per-minute 600`],
    });
  }
  if (turnedAway > 0 && ratePerMinute > 0) {
    causes.push({
      fact: `${plural(turnedAway, 'delivery', 'deliveries')} came faster than it takes them`,
      evidence: `it takes ${ratePerMinute} for each minute; as this process saw it of late`,
      movesBy: 'senders were answered 429, and when to come again',
      commands: [
        `ductile webhook edit ${quote(row.id)} --rate-limit-per-minute ${ratePerMinute * 2}`,
      ],
    });
  }
  if (missing !== undefined) {
    causes.push({
      fact: `what it starts is not there: ${missing}`,
      evidence: 'the configuration in force',
      movesBy: 'senders are asked to come again until it is there',
      commands: [`ductile webhook show ${quote(row.id)}`],
    });
  }
  return causes;
}

function lastVerdict({ row, deliveries, ratePerMinute }: WebhookFacts): Cause {
  const [last] = deliveries;
  if (last === undefined) {
    return {
      fact: 'nothing has ever been delivered to it that it could know',
      evidence: `its address is /hooks/${row.id}, and it takes ${ratePerMinute} for each minute`,
      movesBy: 'its sender has to deliver something',
    };
  }
  const { fact, evidence, at } = tellDelivery(last);
  return { fact: `the last delivery: ${fact}`, evidence, at, commands: remedyOf(last, row) };
}

function remedyOf({ verdict, id, signalId }: DeliveryRow, row: WebhookRow): string[] {
  if (verdict === 'accepted') return signalId === null ? [] : [`ductile why ${signalId}`];
  if (verdict === 'failed') return [`ductile webhook replay ${id}`];
  return [`ductile webhook show ${quote(row.id)}`, `ductile webhook rotate ${quote(row.id)}`];
}

export function tellDelivery(delivery: DeliveryRow): Fact {
  const { verdict, reason, source, signalId, duplicates, receivedAt } = delivery;
  const again = duplicates === 0 ? '' : `, and came ${plural(duplicates, 'time')} again`;
  const why = reason === null ? '' : ` (${firstLine(reason)})`;
  const record = signalId === null ? `delivery ${delivery.id}` : `signal ${signalId}`;
  return {
    fact: `${verdict}${why}, from ${source}${again}`,
    evidence: record,
    at: receivedAt,
  };
}

function made({ createdBy, createdAt, triggerCount }: WebhookRow): Fact {
  const fact = `${createdBy} opened it`;
  return {
    fact,
    evidence: `${plural(triggerCount, 'delivery', 'deliveries')} taken since`,
    at: createdAt,
  };
}
