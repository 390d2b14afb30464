import { isObject, parseStoredJson, type JsonObject } from '../../base/json.ts';
import { limits } from '../../base/limits.ts';
import type { Config } from '../../config/config.ts';
import { type CheckContext, defineFinding } from '../define-finding.service.ts';
import { acknowledgeCommand } from '../finding.ts';
import type { Observation, ObservationKind } from '../types.ts';

/** Reads the observations since an operator acknowledged the finding. */
async function readNew(
  { ledger, acknowledged }: Pick<CheckContext, 'ledger' | 'acknowledged'>,
  observed: ObservationKind,
  kind: string,
): Promise<Observation[]> {
  const rows = await ledger.observations.list(observed);
  return rows.filter(({ key, lastAt }) => (acknowledged?.get(`${kind}:${key}`) ?? '') < lastAt);
}

/** Tokens of the configuration. */
type FileTokens = Config['api']['auth']['tokens'];

export const callRefused = defineFinding({
  kind: 'call_refused',
  condition: 'In the last hour, a token lacked a scope or was not valid.',
  rank: { severity: 'warning', category: 'security', impact: 'item' },
  fix: 'Give the caller a valid token.',
  command: 'ductile token create NAME --scopes SCOPE',
  isAcknowledgeable: true,
  async find(context) {
    const { tokens } = context.config.api.auth;
    const rows = await readNew(context, 'call_refused', 'call_refused');
    return rows.filter((row) => !isGranted(row, tokens)).map((row) => ({ row, tokens }));
  },
  describe({ row, tokens }) {
    const { detail, name, scope, isExpired } = readCall(row);
    const times = row.count === 1 ? 'once' : `${row.count} times`;
    const what = readDetailText(detail, 'operation') ?? 'an unknown path';
    const common = {
      key: row.key,
      evidence: `between ${row.firstAt} and ${row.lastAt}, last for ${what}`,
      since: row.firstAt,
      count: row.count,
      detail,
    };
    if (name === undefined || isExpired) {
      const who =
        name === undefined ? 'A token that is unknown or revoked' : `The expired token ${name}`;
      return {
        ...common,
        message: `${who} was refused ${times} in the last hour.`,
        commands: [name === undefined ? 'ductile token list' : `ductile token rotate ${name}`],
      };
    }
    const who = readDetailText(detail, 'actor') === name ? name : `The token ${name}`;
    const needs = scope !== undefined ? `the scope ${scope}` : 'a scope for it';
    return {
      ...common,
      message: `${who} was refused ${times} in the last hour for ${what}: it needs ${needs}.`,
      fix: `Give the caller a token with ${needs}, if it may do this.`,
      commands: [...listGrants(name, scope, tokens), acknowledgeCommand('call_refused', row.key)],
    };
  },
});

function readCall(row: Observation) {
  const detail = readDetail(row);
  return {
    detail,
    name: readDetailText(detail, 'actor')?.replace(/^token:/, ''),
    scope: readDetailText(detail, 'scope'),
    isExpired: detail['expired'] === true,
  };
}

/** Returns whether a token of the files has the scope by now. */
export function isGranted(row: Observation, tokens: FileTokens): boolean {
  const { name, scope, isExpired } = readCall(row);
  if (scope === undefined || isExpired) return false;
  const scopes = tokens.find((token) => token.name === name)?.scopes ?? [];
  return scopes.includes(scope) || scopes.includes('*');
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

export const workSuppressed = defineFinding({
  kind: 'work_suppressed',
  condition:
    'Within an hour, a dedupe key dropped requests with 3 different payloads, so it is too wide.',
  rank: { severity: 'warning', category: 'jobs' },
  fix:
    'Make the key different for different work, for example with an id from the payload, ' +
    'or send it without a key. Then send the dropped work again, and acknowledge this.',
  command: 'ductile why JOB',
  incident: 'found',
  isAcknowledgeable: true,
  find: async (context) =>
    (await readNew(context, 'job_suppressed', 'work_suppressed')).filter(isTooWide),
  describe(row) {
    const detail = readDetail(row);
    const read = (name: string): string => readDetailText(detail, name) ?? 'unknown';
    const [kind, id] = [read('holder_kind'), read('holder_id')];
    return {
      key: row.key,
      category: kind === 'signal' ? 'signals' : 'jobs',
      message:
        `The dedupe key ${read('dedupe_key')} of ${read('target')} is too wide: ` +
        `it dropped ${row.count} requests with ${countDifferent(row)} different payloads.`,
      evidence:
        `${kind} ${id} holds the key; ` +
        `dropped between ${row.firstAt} and ${row.lastAt}: ${row.count}`,
      commands: [acknowledgeCommand('work_suppressed', row.key)],
      why: id,
      since: row.firstAt,
      count: row.count,
      detail,
    };
  },
});

/** Returns whether the key suppressed different work. The same work again is what a key is for. */
export function isTooWide(row: Observation): boolean {
  return countDifferent(row) >= limits.checks.suppressedMin;
}

function countDifferent(row: Observation): number {
  return Number(readDetail(row)['different'] ?? 0);
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
