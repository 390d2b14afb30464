import * as z from 'zod';
import type { Finding } from '../config/findings.ts';

export const findingShape = z.object({
  severity: z.enum(['error', 'warning', 'info']),
  category: z.string(),
  place: z.string().describe('file, line and column, or the file alone'),
  key: z.string(),
  message: z.string(),
  fix: z.string().describe('what to do about it'),
  id: z.string().describe('the kind and the key of the finding; `why` accepts it'),
  evidence: z.string().nullable().describe('what on record proves it'),
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

/** Findings in the files have no time and no commands. */
const still = { evidence: null, why: null, since: null, count: 1, detail: null };

export function showFindings(findings: readonly Finding[]): z.output<typeof findingsShape> {
  const count = (severity: Finding['severity']): number =>
    findings.filter((finding) => finding.severity === severity).length;
  return {
    valid: count('error') === 0,
    errors: count('error'),
    warnings: count('warning'),
    findings: findings.map(({ severity, category, place, key, message, hint, live }) => ({
      severity,
      category,
      place,
      key,
      message,
      fix: hint,
      ...(live ?? { ...still, id: `${category}:${key}` }),
      commands: [...(live?.commands ?? [])],
    })),
  };
}
