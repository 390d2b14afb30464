import type { LedgerContext } from '../engine/context.ts';
import { DuctileError } from '../base/errors.ts';
import { acknowledgeableKinds } from './types.ts';
import type { DirectiveDefinition } from '../directive/define.service.ts';
import * as z from 'zod';
import { limits } from '../base/limits.ts';
import type { DirectiveType } from '../directive/directive.ts';

/** Its record is all that it leaves behind: checks read when a finding was acknowledged last. */
export function acknowledgeDirective({
  commits,
}: LedgerContext): DirectiveDefinition<AcknowledgeChoice> {
  return {
    ...acknowledgeType,
    plan({ finding }) {
      requireAcknowledgeable(finding);
      return [
        `${finding} would be acknowledged: jobs and runs that ended before now are no longer reported.`,
        'New ones are reported again.',
      ];
    },
    execute: ({ finding }) => Promise.resolve({ finding }),
    after: () => commits.publish({ acknowledged: true }),
  };
}

/** A state that still lasts, such as an open breaker, ends when its cause does. */
function requireAcknowledgeable(finding: string): void {
  const kind = finding.slice(0, finding.indexOf(':'));
  if ((acknowledgeableKinds as readonly string[]).includes(kind)) return;
  throw new DuctileError('INPUT_INVALID', `${finding} can't be acknowledged: it still lasts`, {
    place: 'finding',
    hint: `Resolve it as \`ductile doctor\` says. You can acknowledge ${acknowledgeableKinds.join(', ')}.`,
  });
}

/** A finding, by its kind and key, that needs no more attention. */
export interface AcknowledgeChoice {
  readonly finding: string;
  readonly reason?: string | undefined;
}

/** The directives themselves are the record of what was acknowledged, and when. */
export const acknowledgeType: DirectiveType<AcknowledgeChoice> = {
  type: 'incident.acknowledge',
  summary: 'Stop reporting the dead jobs or halted runs of a finding that ended before now.',
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
};
