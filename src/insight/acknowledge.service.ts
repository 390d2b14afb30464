import * as z from 'zod';
import type { Timestamp } from '../base/clock.ts';
import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { DirectiveDefinition } from '../directive/define.service.ts';
import type { DirectiveType } from '../directive/directive.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import { acknowledgeableKinds } from './findings/all.ts';

/** The id of a finding that needs no more attention. */
interface AcknowledgeChoice {
  readonly finding: string;
  readonly reason?: string | undefined;
}

const acknowledgeType: DirectiveType<AcknowledgeChoice> = {
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

/** Defines the directive. It changes nothing but its own record, which `readAcknowledged` reads. */
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
  if (acknowledgeableKinds.includes(kind)) return;
  throw new DuctileError('INPUT_INVALID', `${finding} can't be acknowledged: it still lasts`, {
    place: 'finding',
    hint: `Resolve it as \`ductile doctor\` says. You can acknowledge ${acknowledgeableKinds.join(', ')}.`,
  });
}

/** Reads when each finding was acknowledged last, by its id. The directives themselves are the record. */
export async function readAcknowledged(
  ledger: LedgerSubset<'directives.page'>,
): Promise<ReadonlyMap<string, Timestamp>> {
  const { rows } = await ledger.directives.page({
    type: acknowledgeType.type,
    status: ['completed'],
    limit: limits.acknowledgementsMax,
  });
  const newestLast = rows.toReversed().flatMap(({ target, completedAt }) => {
    const id = target.slice(target.indexOf(':') + 1);
    return completedAt === null ? [] : [[id, completedAt] as const];
  });
  return new Map(newestLast);
}
