import type { Config } from '../../config/config.ts';
import type { Observation } from '../types.ts';
import type { Check, CheckContext } from '../check.service.ts';
import { acknowledgeCommand, findingId, type LiveFinding } from '../finding.ts';
import { isObject, parseStoredJson, type JsonObject } from '../../base/json.ts';
import { limits } from '../../base/limits.ts';

/** Finds API calls of the last hour that were refused because of a missing scope or an invalid token. */
export const findRefusedCalls: Check = async ({ ledger, acknowledged, config }) => {
  const rows = await ledger.observations.list('call_refused');
  const isNew = (finding: LiveFinding, { lastAt }: Observation): boolean =>
    (acknowledged?.get(findingId(finding)) ?? '') < lastAt;
  return rows.flatMap((row) => {
    const finding = describeRefused(row, config.api.auth.tokens);
    if (finding === undefined) return [];
    return isNew(finding, row) ? [finding] : [];
  });
};

/** Tokens of the configuration. */
type FileTokens = Config['api']['auth']['tokens'];

/** Describes the refused calls of a token. Undefined if a token of the files has the scope by now. */
export function describeRefused(
  row: Observation,
  tokens: FileTokens = [],
): LiveFinding | undefined {
  const detail = readDetail(row);
  const actor = readDetailText(detail, 'actor');
  const scope = readDetailText(detail, 'scope');
  const times = row.count === 1 ? 'once' : `${row.count} times`;
  const what = readDetailText(detail, 'operation') ?? 'an unknown path';
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
  if (hasScope(name, scope, tokens)) return undefined;
  const who = actor === name ? name : `The token ${name}`;
  const needs = scope !== undefined ? `the scope ${scope}` : 'a scope for it';
  return {
    ...common,
    message: `${who} was refused ${times} in the last hour for ${what}: it needs ${needs}.`,
    fix: `Give the caller a token with ${needs}, if it may do this.`,
    commands: [...listGrants(name, scope, tokens), acknowledgeCommand(common.kind, row.key)],
  };
}

/** Lists the commands that give a caller the scope. Only tokens in the files can be changed. */
function listGrants(name: string, scope: string | undefined, tokens: FileTokens): string[] {
  if (scope === undefined) return [];
  const index = tokens.findIndex((token) => token.name === name);
  const known = tokens[index];
  if (known === undefined) return [`ductile token create ${name}-2 --scopes ${scope}`];
  const scopes = JSON.stringify([...known.scopes, scope]);
  const key = `api.auth.tokens.${index}.scopes`;
  return [`ductile config set '${key}=${scopes}' --apply && ductile system reload`];
}

function hasScope(name: string, scope: string | undefined, tokens: FileTokens): boolean {
  const scopes = tokens.find((token) => token.name === name)?.scopes ?? [];
  return scope !== undefined && (scopes.includes(scope) || scopes.includes('*'));
}

/** Finds dedupe keys that suppressed different work: such a key is too wide. */
export const findSuppressedWork: Check = async ({ ledger, acknowledged }) => {
  const rows = await ledger.observations.list('job_suppressed');
  return rows.flatMap((row) => describeSuppressed(row, acknowledged) ?? []);
};

/** Describes one key. Undefined if all suppressed work was the same, as it should be. */
export function describeSuppressed(
  row: Observation,
  acknowledged: CheckContext['acknowledged'],
): LiveFinding | undefined {
  const detail = readDetail(row);
  const read = (name: string): string => readDetailText(detail, name) ?? 'unknown';
  const [target, dedupeKey] = [read('target'), read('dedupe_key')];
  const [kind, id] = [read('holder_kind'), read('holder_id')];
  const different = Number(detail['different'] ?? 0);
  if (different < limits.checks.suppressedMin) return undefined;
  const finding: LiveFinding = {
    kind: 'work_suppressed',
    key: row.key,
    severity: 'warning',
    category: kind === 'signal' ? 'signals' : 'jobs',
    message:
      `The dedupe key ${dedupeKey} of ${target} is too wide: ` +
      `it dropped ${row.count} requests with ${different} different payloads.`,
    evidence:
      `${kind} ${id} holds the key; ` +
      `dropped between ${row.firstAt} and ${row.lastAt}: ${row.count}`,
    fix:
      'Make the key different for different work, for example with an id from the payload, ' +
      'or send it without a key. Then send the dropped work again, and acknowledge this.',
    commands: [acknowledgeCommand('work_suppressed', row.key)],
    why: id,
    since: row.firstAt,
    count: row.count,
    detail,
  };
  const seenAt = acknowledged?.get(findingId(finding));
  return seenAt !== undefined && seenAt >= row.lastAt ? undefined : finding;
}

/** Reads the stored detail of an observation. */
function readDetail({ detail }: Pick<Observation, 'detail'>): JsonObject {
  const stored = parseStoredJson(detail);
  return isObject(stored) ? stored : {};
}

/** Reads a text from the detail of an observation. */
function readDetailText(detail: JsonObject, name: string): string | undefined {
  const value = detail[name];
  return typeof value === 'string' ? value : undefined;
}
