import type { Timestamp } from '../base/clock.ts';
import type { JsonObject } from '../base/json.ts';
import type { FindingCategory, Severity } from '../config/findings.ts';

/**
 * Something that is wrong now or that waits for a decision, found on the ledger. `doctor` lists every
 * finding; findings whose kind is an incident kind also open an incident while they last.
 */
export interface LiveFinding {
  /** A stable name of the rule, such as `run_halted`. */
  readonly kind: string;
  /** The object of the finding, such as `mail/handle`. Kind and key together identify it. */
  readonly key: string;
  readonly severity: Severity;
  readonly category: FindingCategory;
  /** What is wrong, as a sentence that names the object. */
  readonly message: string;
  /** What on record proves it. */
  readonly evidence: string;
  /** What to do, as a sentence. */
  readonly fix: string;
  /** Commands that resolve it, the best first. */
  readonly commands: readonly string[];
  /** The argument for `ductile why`. */
  readonly why?: string | undefined;
  readonly since?: Timestamp | null | undefined;
  /** How much stops because of it; findings that stop more come first (default: part). */
  readonly impact?: Impact | undefined;
  /** How many objects the finding covers. */
  readonly count?: number | undefined;
  /** Ids and figures for programs. */
  readonly detail?: JsonObject | undefined;
}

/** `everything`: no job starts. `part`: a plugin, pipeline or schedule. `item`: single jobs or runs. */
export type Impact = (typeof impacts)[number];
const impacts = ['everything', 'part', 'item'] as const;

/** 0 for what stops most. */
export function impactRank({ impact = 'part' }: Pick<LiveFinding, 'impact'>): number {
  return impacts.indexOf(impact);
}

/** The id of a finding; `ductile why` accepts it. */
export function findingId({ kind, key }: Pick<LiveFinding, 'kind' | 'key'>): string {
  return `${kind}:${key}`;
}

/** The command by which an operator ends a finding about the past. */
export function acknowledgeCommand(kind: string, key: string): string {
  const id = findingId({ kind, key });
  const isPlain = /^[\w@%+=:,./-]+$/.test(id);
  return `ductile incident acknowledge ${isPlain ? id : `'${id.replaceAll("'", String.raw`'\''`)}'`}`;
}

const severities: readonly Severity[] = ['error', 'warning', 'info'];

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
