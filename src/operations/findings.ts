import * as z from 'zod';
import type { Finding } from '../config/findings.ts';

export const findingShape = z.object({
  severity: z.enum(['error', 'warning', 'info']),
  category: z.string(),
  place: z.string().describe('file, line and column, or the file alone'),
  key: z.string(),
  message: z.string(),
  fix: z.string().describe('what to do about it'),
});

/** What both `config check` and `system doctor` answer. */
export const findingsShape = z.object({
  valid: z.boolean().describe('whether there are no errors'),
  errors: z.int(),
  warnings: z.int(),
  findings: z.array(findingShape),
});

export function showFindings(findings: readonly Finding[]): z.output<typeof findingsShape> {
  const count = (severity: Finding['severity']): number =>
    findings.filter((finding) => finding.severity === severity).length;
  return {
    valid: count('error') === 0,
    errors: count('error'),
    warnings: count('warning'),
    findings: findings.map(({ severity, category, place, key, message, hint }) => ({
      severity,
      category,
      place,
      key,
      message,
      fix: hint,
    })),
  };
}
