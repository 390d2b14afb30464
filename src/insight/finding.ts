import { type Timestamp, fromTimestamp, toTimestamp } from '../base/clock.ts';
import type { JsonObject } from '../base/json.ts';
import { formatDuration } from '../base/quantity.ts';
import { limits } from '../base/limits.ts';
import { quoteShell } from '../base/text.ts';

/** The most severe first. */
export const severities = ['error', 'warning', 'info'] as const;
export type Severity = (typeof severities)[number];
export type FindingCategory =
  | 'content'
  | 'integrity'
  | 'permissions'
  | 'security'
  | 'plugins'
  | 'packages'
  | 'routes'
  | 'pipelines'
  | 'schedules'
  | 'webhooks'
  | 'state'
  | 'service'
  | 'jobs'
  | 'signals'
  | 'approvals'
  | 'credentials'
  | 'tenants';

/** Commands that check one part of what `doctor` checks, or check it more closely. */
export const doctorParts: readonly string[] = [
  'config check',
  'pipeline check',
  'system check',
  'system selfcheck',
  'plugin health',
  'package validate',
];

/**
 * A problem or a pending decision that a check found on the ledger. `doctor` lists every finding. A
 * finding of an incident kind also opens an incident while it lasts.
 */
export interface LiveFinding {
  /** A stable name of the rule, such as `run_halted`. */
  readonly kind: string;
  /** The object of the finding, such as `mail/handle`. Kind and key together identify it. */
  readonly key: string;
  readonly severity: Severity;
  readonly category: FindingCategory;
  /** The problem, as a sentence that names the object. */
  readonly message: string;
  /** The records that prove it. */
  readonly evidence: string;
  /** The next step, as a sentence. */
  readonly fix: string;
  /** Commands that resolve it, best first. */
  readonly commands: readonly string[];
  /** The argument for `ductile why`. */
  readonly why?: string | undefined;
  readonly since?: Timestamp | null | undefined;
  /** When it ends by itself. */
  readonly endsAt?: Timestamp | null | undefined;
  /** How much stops because of it; findings that stop more come first (default: part). */
  readonly impact?: Impact | undefined;
  /** The part to repair, for `why`. */
  readonly repair?: RepairPart | undefined;
  /** How many objects the finding covers. */
  readonly count?: number | undefined;
  /** Ids and figures for programs. */
  readonly detail?: JsonObject | undefined;
}

/** The conditions of findings in the configuration files. Their kind is their category. */
export const fileConditions = {
  content: 'A key or a value in the files is invalid or has no effect.',
  integrity: 'A file is not locked, or changed after it was locked.',
  permissions: 'Other users of the machine can read or change a file.',
  security: 'A setting exposes the service, a token or a plugin.',
  plugins: 'A plugin cannot be loaded, is not set up, or has a mistake in its manifest.',
  packages: 'A package in the package roots cannot be installed.',
  routes: 'A route is invalid, leads nowhere, or is part of a loop.',
  pipelines: 'A pipeline is invalid or uses something that is missing.',
  schedules: 'A schedule is invalid or never fires.',
  webhooks: 'An endpoint is invalid, or its secret is missing.',
  state: 'The database cannot be opened, or other users can read it.',
} as const satisfies Partial<Record<FindingCategory, string>>;

export type FileCategory = keyof typeof fileConditions;

/** Returns the remedy of a finding in the files that names no other. */
export function describeFileFix(category: FileCategory): string {
  if (category === 'plugins') return 'Correct the plugin, then run `ductile plugin list`.';
  return 'Correct it, then run `ductile config check`.';
}

/** `everything`: no job starts. `part`: a plugin, pipeline or schedule. `item`: single jobs or runs. */
export type Impact = (typeof impacts)[number];
const impacts = ['everything', 'part', 'item'] as const;

/**
 * The parts that can hold work back, in the order of repair. `switch` is a pause or something
 * disabled. It comes last, because work starts as soon as it is undone.
 */
export const repairOrder = ['ledger', 'secret', 'plugin', 'service', 'switch'] as const;
export type RepairPart = (typeof repairOrder)[number];

/** Returns 0 for the findings that stop most. */
export function impactRank({ impact = 'part' }: Pick<LiveFinding, 'impact'>): number {
  return impacts.indexOf(impact);
}

/** Returns the id of a finding. `ductile why` accepts it. */
export function findingId({ kind, key }: Pick<LiveFinding, 'kind' | 'key'>): string {
  return `${kind}:${key}`;
}

/** Returns the command that acknowledges a finding about past events. */
export function acknowledgeCommand(kind: string, key: string): string {
  return `ductile incident acknowledge ${quoteShell(findingId({ kind, key }))}`;
}

/** Sorts findings: errors first, then what stops most, then the oldest. */
export function rankFindings(findings: readonly LiveFinding[]): LiveFinding[] {
  const rank = (finding: LiveFinding): number =>
    severities.indexOf(finding.severity) * impacts.length + impactRank(finding);
  const age = ({ since }: LiveFinding): string => since ?? '~';
  return findings.toSorted(
    (a, b) => rank(a) - rank(b) || compareText(age(a), age(b)) || compareText(a.key, b.key),
  );
}

function compareText(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** Formats how long ago a moment was, in whole minutes from a minute on. */
export function formatAge(since: Timestamp, now: Timestamp): string {
  const ms = Math.max(0, fromTimestamp(now) - fromTimestamp(since));
  const unit = ms < MINUTE_MS ? 1000 : MINUTE_MS;
  return formatDuration(Math.floor(ms / unit) * unit);
}

const MINUTE_MS = 60_000;

/** Returns how far back checks of ended jobs and runs read. */
export function toFindingWindow(now: Timestamp): {
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

/** Groups objects by the key of their finding. It drops those that ended before an acknowledgement. */
export function groupUnacknowledged<T extends { readonly completedAt: Timestamp | null }>(
  objects: readonly T[],
  kind: string,
  keyOf: (object: T) => string,
  { acknowledged }: { readonly acknowledged?: ReadonlyMap<string, Timestamp> | undefined },
): readonly (readonly [key: string, objects: readonly T[]])[] {
  return [...Map.groupBy(objects, keyOf)]
    .map(([key, all]) => {
      const at = acknowledged?.get(findingId({ kind, key })) ?? '';
      return [key, all.filter(({ completedAt }) => (completedAt ?? '') > at)] as const;
    })
    .filter(([, unacknowledged]) => unacknowledged.length > 0);
}
