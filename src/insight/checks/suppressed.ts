import { isObject, parseStoredJson, type JsonObject } from '../../base/json.ts';
import { limits } from '../../base/limits.ts';
import type { Observation } from '../observation-types.ts';
import type { Check, CheckContext } from '../check.service.ts';
import { acknowledgeCommand, findingId, type LiveFinding } from '../finding.ts';

/** Finds dedupe keys that kept different work from starting: such a key is too wide. */
export const findSuppressedWork: Check = async ({ ledger, acknowledged }) => {
  const rows = await ledger.observations.list('job_suppressed');
  return rows.flatMap((row) => describeSuppressed(row, acknowledged) ?? []);
};

/** The finding of one key; undefined if what it suppressed was all the same, as it should be. */
export function describeSuppressed(
  row: Observation,
  acknowledged: CheckContext['acknowledged'],
): LiveFinding | undefined {
  const detail = readDetail(row);
  const read = (name: string): string => readText(detail, name) ?? 'unknown';
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

/** The detail of an observation, as it was noted. */
export function readDetail({ detail }: Pick<Observation, 'detail'>): JsonObject {
  const stored = parseStoredJson(detail);
  return isObject(stored) ? stored : {};
}

/** A text in the detail of an observation. */
export function readText(detail: JsonObject, name: string): string | undefined {
  const value = detail[name];
  return typeof value === 'string' ? value : undefined;
}
