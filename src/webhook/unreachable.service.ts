import { formatCredentialRef } from '../base/credential-ref.ts';
import { messageOf, toDuctileError, type DuctileError } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import type { WebhookRow } from './types.ts';
import { checkTarget, readEntry, type Targets } from './check-entry.service.ts';
import { checkAgent, checkTemplate, type AgentTargets } from './check-agent.service.ts';

/** The webhooks that are on and have nothing to start, by their ids, and why. */
export function findStranded(
  rows: readonly WebhookRow[],
  inForce: Targets,
): ReadonlyMap<string, string> {
  return new Map(
    rows.flatMap((row) => {
      const fault = faultOf(row, inForce);
      return fault === undefined ? [] : [[row.id, fault]];
    }),
  );
}

/** Settings of enabled webhooks that could never work, by their ids, whatever else is there. */
export function findWebhookFaults(
  rows: readonly WebhookRow[],
  agents: AgentTargets,
): ReadonlyMap<string, DuctileError> {
  return new Map(
    rows.flatMap((row) => {
      try {
        const settings = parseJson(row.settings) as JsonObject;
        const { target, enabled } = readEntry(row.id, settings, [
          { secret: formatCredentialRef('kept') },
        ]);
        if (!enabled) return [];
        checkTemplate(target);
        checkAgent(target, agents);
        return [];
      } catch (thrown) {
        return [[row.id, toDuctileError(thrown)] as const];
      }
    }),
  );
}

/** Those that one configuration leaves without what another one had, in sentences. */
export async function tellStranded(
  before: Targets,
  after: Targets,
  ledger: LedgerSubset<'webhooks.list'>,
): Promise<string[]> {
  const rows = await ledger.webhooks.list();
  const known = findStranded(rows, before);
  return [...findStranded(rows, after)]
    .filter(([id]) => !known.has(id))
    .map(([id, fault]) => `The webhook ${id} takes nothing any more: ${fault}.`);
}

function faultOf({ id, settings }: WebhookRow, inForce: Targets): string | undefined {
  try {
    const hook = readEntry(id, parseJson(settings) as JsonObject, [
      { secret: formatCredentialRef('kept') },
    ]);
    if (hook.enabled) checkTarget(hook, inForce);
    return undefined;
  } catch (thrown) {
    return messageOf(thrown);
  }
}
