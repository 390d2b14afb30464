import type { Observation } from '../../ledger/observations.ts';
import type { Check } from '../check.ts';
import { findingId, type LiveFinding } from '../finding.ts';
import { readDetail, readText } from './suppressed.ts';

/** Finds API calls of the last hour that were refused for want of a scope or of a valid token. */
export const findRefusedCalls: Check = async ({ ledger, acknowledged }) => {
  const rows = await ledger.observations('call_refused');
  const isNew = (finding: LiveFinding, { lastAt }: Observation): boolean =>
    (acknowledged?.get(findingId(finding)) ?? '') < lastAt;
  return rows.flatMap((row) => {
    const finding = describeRefused(row);
    return isNew(finding, row) ? [finding] : [];
  });
};

/** One finding for each token and operation. */
export function describeRefused(row: Observation): LiveFinding {
  const detail = readDetail(row);
  const actor = readText(detail, 'actor');
  const scope = readText(detail, 'scope');
  const times = row.count === 1 ? 'once' : `${row.count} times`;
  const what = readText(detail, 'operation') ?? 'an unknown path';
  const name = actor?.replace(/^token:/, '');
  const common = {
    kind: 'call_refused',
    key: row.key,
    severity: 'warning',
    category: 'security',
    impact: 'item',
    evidence: `between ${row.firstAt} and ${row.lastAt}, last for ${what}`,
    since: row.firstAt,
    count: row.count,
    detail,
  } as const satisfies Partial<LiveFinding>;
  if (name === undefined || detail['expired'] === true) {
    const who =
      name === undefined ? 'A token that is unknown or revoked' : `The expired token ${name}`;
    return {
      ...common,
      message: `${who} was refused ${times} in the last hour.`,
      fix: 'Give the caller a valid token.',
      commands: [name === undefined ? 'ductile token list' : `ductile token rotate ${name}`],
    };
  }
  const who = actor === name ? name : `The token ${name}`;
  const needs = scope !== undefined ? `the scope ${scope}` : 'a scope for it';
  return {
    ...common,
    message: `${who} was refused ${times} in the last hour for ${what}: it needs ${needs}.`,
    fix: `Give the caller a token with ${needs}, if it may do this.`,
    commands: scope !== undefined ? [`ductile token create ${name}-2 --scopes ${scope}`] : [],
  };
}
