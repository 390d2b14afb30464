import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { compact } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { defineDirective, directiveIdField } from '../operation/define-directive.ts';
import { ACKNOWLEDGE } from './checks.service.ts';
import { findIncidentById } from './incident.operations.ts';
import { acknowledgeableKinds } from './findings/all.ts';

/** It changes nothing but its own record, which `readAcknowledged` reads. */
export const acknowledgeIncidentDirective = defineDirective({
  type: ACKNOWLEDGE,
  summary: 'Acknowledge an incident or a finding. Ductile reports only new occurrences after that.',
  scope: 'incidents:rw',
  isRepeatable: true,
  params: z.strictObject({
    finding: z
      .string()
      .regex(/^[a-z_]+:./, 'must be a kind and a key, such as job_dead:mail/handle')
      .max(limits.findingIdCharsMax),
    reason: z.string().min(1).max(limits.decisionReasonCharsMax).optional(),
  }),
  sameness: () => 'each',
  target: ({ finding }) => finding,
  plan(_context, { finding }) {
    requireAcknowledgeable(finding);
    return [
      `${finding} will be acknowledged. Occurrences up to now will no longer be reported.`,
      'New ones will be reported again.',
    ];
  },
  execute: (_context, { finding }) => Promise.resolve({ finding }),
  after: ({ commits }) => commits.publish({ acknowledged: true }),
  operation: {
    effect: 'write',
    input: z.strictObject({
      id: z
        .string()
        .min(4)
        .max(limits.findingIdCharsMax)
        .describe(
          'id of an incident or the start of it, or id of a finding such as job_dead:mail/handle',
        ),
      reason: z
        .string()
        .min(1)
        .max(limits.decisionReasonCharsMax)
        .optional()
        .describe('reason to record with the acknowledgement'),
    }),
    output: z.object({
      finding: z.string().describe('kind and key of the acknowledged finding'),
      directive_id: directiveIdField,
    }),
    errors: ['INCIDENT_NOT_FOUND', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
    http: { method: 'POST', path: '/incidents/:id/acknowledge' },
    cli: {
      positionals: ['id'],
      examples: [
        'ductile incident acknowledge 0199a1b2 --reason "sent by hand"',
        'ductile incident acknowledge job_dead:mail/handle',
      ],
    },
    async toParams({ engine: { ledger } }, { id, reason }) {
      if (id.includes(':')) return { finding: id, ...compact({ reason }) };
      const { kind, key } = await findIncidentById(ledger, id.toLowerCase());
      return { finding: `${kind}:${key}`, ...compact({ reason }) };
    },
  },
});

/** A state that still lasts, such as an open breaker, ends when its cause does. */
function requireAcknowledgeable(finding: string): void {
  const kind = finding.slice(0, finding.indexOf(':'));
  if (acknowledgeableKinds.includes(kind)) return;
  throw new DuctileError('INPUT_INVALID', `${finding} can't be acknowledged: it still lasts`, {
    place: 'finding',
    hint: `Resolve it as \`ductile doctor\` says. You can acknowledge ${acknowledgeableKinds.join(', ')}.`,
  });
}
