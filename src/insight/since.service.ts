import { fromTimestamp, toTimestamp, type Timestamp } from '../base/clock.ts';
import { formatDuration } from '../base/quantity.ts';
import { limits } from '../base/limits.ts';
import type { CheckContext } from './check.service.ts';
import { findingId } from './finding.ts';

/** Formats how long ago a moment was, in whole minutes from a minute on. */
export function formatAge(since: Timestamp, now: Timestamp): string {
  const ms = Math.max(0, fromTimestamp(now) - fromTimestamp(since));
  const unit = ms < MINUTE_MS ? 1000 : MINUTE_MS;
  return formatDuration(Math.floor(ms / unit) * unit);
}

const MINUTE_MS = 60_000;

/** What checks of ended jobs and runs ask the ledger for. */
export function lookBack(now: Timestamp): {
  since: Timestamp;
  visitMax: number;
  groupsMax: number;
} {
  return {
    since: toTimestamp(fromTimestamp(now) - limits.findingLookBackMs),
    visitMax: limits.findingRowsMax,
    groupsMax: limits.findingGroupsMax,
  };
}

/** Groups objects by the key of their finding, without those that ended before it was acknowledged. */
export function groupUnacknowledged<T extends { readonly completedAt: Timestamp | null }>(
  objects: readonly T[],
  kind: string,
  keyOf: (object: T) => string,
  { acknowledged }: Pick<CheckContext, 'acknowledged'>,
): readonly (readonly [key: string, objects: readonly T[]])[] {
  return [...Map.groupBy(objects, keyOf)]
    .map(([key, all]) => {
      const at = acknowledged?.get(findingId({ kind, key })) ?? '';
      return [key, all.filter(({ completedAt }) => (completedAt ?? '') > at)] as const;
    })
    .filter(([, left]) => left.length > 0);
}
