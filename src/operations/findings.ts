import * as z from 'zod';
import type { Finding, LiveParts } from '../config/findings.ts';

export const findingShape = z.object({
  severity: z.enum(['error', 'warning', 'info']),
  category: z.string(),
  place: z.string().describe('file, line and column, or the file alone'),
  key: z.string(),
  message: z.string(),
  fix: z.string().describe('what to do about it'),
  id: z.string().describe('the kind and the key of the finding; `why` accepts it'),
  evidence: z.string().nullable().describe('what on record proves it, or the location in a file'),
  commands: z.array(z.string()).describe('commands that resolve it, the best first'),
  why: z.string().nullable().describe('an argument for `why` that explains it'),
  since: z.string().nullable(),
  count: z.int().describe('how many objects it covers'),
  detail: z.unknown().describe('ids and figures for programs; null where there are none'),
});

/** What both `config check` and `system doctor` answer. */
export const findingsShape = z.object({
  valid: z.boolean().describe('whether there are no errors'),
  errors: z.int(),
  warnings: z.int(),
  findings: z.array(findingShape),
});

/** Findings in the files have no time; their proof is where they were found. */
function describeStill(finding: Finding): Omit<LiveParts, 'why'> {
  const { severity, category, place, key, hint } = finding;
  const named = listCommands(hint);
  const usual = severity === 'error' ? ['ductile config check'] : [];
  return {
    id: `${category}:${key === '' ? place : key}`,
    evidence: place === '' ? category : place,
    commands: named.length > 0 ? named : usual,
    since: null,
    count: 1,
    detail: null,
  };
}

/**
 * Reads the commands that a fix names, the last first: fixes say what to look at before what to do.
 * A command with a part that the reader has to fill in can't be run as it is.
 */
export function listCommands(fix: string): string[] {
  const named = fix.matchAll(/`((?:ductile|chmod) [^`]+)`|^Run: (\S.*)$/g);
  const commands = [...named].map(([, quoted, plain]) => quoted ?? plain ?? '');
  return commands.filter((command) => !/[<…]/.test(command)).toReversed();
}

export function showFindings(findings: readonly Finding[]): z.output<typeof findingsShape> {
  const count = (severity: Finding['severity']): number =>
    findings.filter((finding) => finding.severity === severity).length;
  return {
    valid: count('error') === 0,
    errors: count('error'),
    warnings: count('warning'),
    findings: findings.map((finding) => {
      const { severity, category, place, key, message, hint } = finding;
      const { commands, ...live } = finding.live ?? { why: null, ...describeStill(finding) };
      return {
        severity,
        category,
        place,
        key,
        message,
        fix: hint,
        ...live,
        commands: [...commands],
      };
    }),
  };
}
