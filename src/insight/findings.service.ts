import * as z from 'zod';
import type { Finding } from '../config/findings.ts';
import { findingId, impactRank, type LiveFinding, severities } from './finding.ts';

export const findingShape = z.object({
  id: z.string().describe('kind and key of the finding; `why` accepts it'),
  kind: z.string().describe('stable name of the rule, such as job_dead'),
  severity: z.enum(severities),
  category: z.string(),
  place: z.string().describe('file, line and column, the file alone, or the id of the finding'),
  key: z.string(),
  message: z.string(),
  fix: z.string().describe('remedy, as a sentence'),
  evidence: z.string().nullable().describe('records that prove it, or the location in a file'),
  commands: z.array(z.string()).describe('commands that resolve it, best first'),
  why: z.string().nullable().describe('argument for `why` that explains it'),
  since: z.string().nullable(),
  count: z.int().describe('number of objects that it covers'),
  detail: z.unknown().describe('ids and figures for programs; null if there are none'),
});

/** The output of both `config check` and `system doctor`. */
export const findingsShape = z.object({
  valid: z.boolean().describe('true if there are no errors'),
  errors: z.int(),
  warnings: z.int(),
  infos: z.int().describe('number of findings that need no action'),
  findings: z.array(findingShape).describe('errors first, then what stops most'),
});

/**
 * Reads the commands that a fix names, the last first: fixes say what to look at before what to do.
 * A command with a part that the reader has to fill in can't be run as it is.
 */
export function parseFixCommands(fix: string): string[] {
  const named = fix.matchAll(/`((?:ductile|chmod) [^`]+)`|^Run: (\S.*)$/g);
  const commands = [...named].map(([, quoted, plain]) => quoted ?? plain ?? '');
  return commands.filter((command) => !/[<…]/.test(command)).toReversed();
}

/** Ranks findings of files and of the ledger together. */
export function rankAllFindings(findings: readonly Finding[]): Finding[] {
  const rank = ({ severity, live }: Finding): number =>
    severities.indexOf(severity) * IMPACTS + impactRank(live ?? {});
  return findings.toSorted((a, b) => rank(a) - rank(b));
}

const IMPACTS = 3;

export function countFindings(findings: readonly Pick<Finding, 'severity'>[]) {
  const count = (severity: Finding['severity']): number =>
    findings.filter((finding) => finding.severity === severity).length;
  return { errors: count('error'), warnings: count('warning'), infos: count('info') };
}

export function showFindings(findings: readonly Finding[]): z.output<typeof findingsShape> {
  const counts = countFindings(findings);
  return { valid: counts.errors === 0, ...counts, findings: findings.map(showFinding) };
}

function showFinding(finding: Finding): z.output<typeof findingShape> {
  const { severity, category, place, key, message, hint: fix, live } = finding;
  const { id, kind, ...parts } = live === undefined ? showFileParts(finding) : showLiveParts(live);
  return { id, kind, severity, category, place, key, message, fix, ...parts };
}

function showLiveParts(live: LiveFinding) {
  return {
    id: findingId(live),
    kind: live.kind,
    evidence: live.evidence,
    commands: [...live.commands],
    why: live.why ?? null,
    since: live.since ?? null,
    count: live.count ?? 1,
    detail: live.detail ?? null,
  };
}

/** Completes a finding in the files. It has no time, and its evidence is its location. */
function showFileParts({ severity, category, place, key, hint }: Finding) {
  const named = parseFixCommands(hint);
  const usual = severity === 'error' ? ['ductile config check'] : [];
  return {
    id: `${category}:${key === '' ? place : key}`,
    kind: category,
    evidence: place === '' ? category : place,
    commands: named.length > 0 ? named : usual,
    why: null,
    since: null,
    count: 1,
    detail: null,
  };
}
