import * as z from 'zod';
import { limits } from '../base/limits.ts';
import type { DirectiveType } from '../directive/type.ts';

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
    reason: z.string().min(1).max(limits.whyCharsMax).optional(),
  }),
  sameness: () => 'each',
  target: ({ finding }) => finding,
};
