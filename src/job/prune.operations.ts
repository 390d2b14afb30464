import * as z from 'zod';
import { duration } from '../base/fields.ts';
import { limits } from '../base/limits.ts';
import { history } from './prune-directives.ts';
import { defineOperation } from '../operation/define.ts';
import { direct, directErrors, planDirective } from '../directive/request.operations.ts';

const pruneInput = z.strictObject({
  what: z.array(z.enum(history)).min(1).optional().describe('only these kinds of rows'),
  older_than: duration({ minMs: 0, maxMs: limits.delayMsMax })
    .optional()
    .describe('in place of the retention of the configuration; needs --what'),
});

export const systemPrune = defineOperation({
  name: 'system.prune',
  summary: 'Delete history that is past its retention, or older than told.',
  effect: 'destroy',
  scope: 'system:rw',
  input: pruneInput,
  output: z.object({
    directive_id: z.string().describe('the record of this change'),
    rows: z.record(z.string(), z.int()).describe('how many of each kind were deleted'),
  }),
  errors: [...directErrors, 'FORBIDDEN', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'POST', path: '/system/prune' },
  cli: {
    examples: [
      'ductile system prune --dry-run',
      'ductile system prune --what signals,attempts --older-than 7d',
    ],
  },
  async run(context, input) {
    const { id, result } = await direct(context, 'system.prune', toParams(input));
    return { directive_id: id, rows: (result['rows'] ?? {}) as Record<string, number> };
  },
  plan: (context, input) => planDirective(context, 'system.prune', toParams(input)),
});

function toParams({ what, older_than: age }: z.output<typeof pruneInput>): object {
  return {
    ...(what === undefined ? {} : { what }),
    ...(age === undefined ? {} : { older_than_ms: age }),
  };
}
