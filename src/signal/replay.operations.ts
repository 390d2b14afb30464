import * as z from 'zod';
import { moment, nonBlankText } from '../base/fields.ts';
import { limits } from '../base/limits.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation } from '../operation/define.ts';
import { direct, directErrors, planDirective } from '../operation/request-directive.ts';
import { findDirectiveById } from '../operation/find-by-id.ts';
import { requireSignal, signalIdField } from './operations.ts';

const replayInput = z.strictObject({
  id: signalIdField.optional(),
  type: nonBlankText().optional().describe('all signals of this type'),
  source: nonBlankText().optional().describe('all signals of this source'),
  from: moment().optional().describe('all signals of this time or later'),
  to: moment().optional().describe('all signals from before this time'),
  resume: nonBlankText()
    .optional()
    .describe('the id of a failed replay or its beginning; it is continued after its last step'),
  handler: nonBlankText()
    .optional()
    .describe('only by this: a plugin, <plugin>.<command> or pipeline:<name>; all unless told'),
  force: z
    .boolean()
    .default(false)
    .describe('also by what handled them well before, or does so now'),
  limit: z
    .int()
    .min(1)
    .max(limits.bulkJobsMax)
    .default(limits.bulkJobsDefault)
    .describe(`how many signals at most (${limits.bulkJobsDefault} unless told)`),
});

export const replaySignals = defineOperation({
  name: 'signal.replay',
  summary: 'Let signals be handled once more, by what the configuration says now.',
  effect: 'write',
  scope: 'system:rw',
  input: replayInput,
  output: z.object({
    directive_id: z.string().describe('the record of this change'),
    signals: z.int().describe('how many were found'),
    jobs: z.int().describe('new jobs'),
    runs: z.int().describe('new runs'),
    skipped: z.int().describe('jobs and runs left out: the like was done well or is under way'),
    unhandled: z.int().describe('signals that nothing handles now'),
    unopened: z.int().describe('signals left out: what was masked in them cannot be opened'),
  }),
  errors: [
    ...directErrors,
    'CREDENTIAL_KEY_INVALID',
    'CREDENTIAL_KEY_MISSING',
    'DIRECTIVE_NOT_FOUND',
    'FORBIDDEN',
    'INPUT_INVALID',
    'LEDGER_UNAVAILABLE',
    'SIGNAL_MASKED',
    'SIGNAL_NOT_FOUND',
    'TENANT_LIMIT',
    'TENANT_SUSPENDED',
  ],
  http: { method: 'POST', path: '/signals/replay' },
  cli: {
    positionals: ['id'],
    flags: { type: '-t, --type <type>', limit: '-n, --limit <count>' },
    examples: [
      'ductile signal replay 0199a1b2 --dry-run',
      'ductile signal replay --type order.paid --from 2026-11-15T00:00:00Z --handler mail.handle',
      'ductile signal replay 0199a1b2 --force',
      'ductile signal replay --resume 0199a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b',
    ],
  },
  async run(context, input) {
    const { id, result } = await direct(context, 'signal.replay', await toParams(context, input));
    const count = (name: string): number => Number(result[name] ?? 0);
    return {
      directive_id: id,
      signals: count('signals'),
      jobs: count('jobs'),
      runs: count('runs'),
      skipped: count('skipped'),
      unhandled: count('unhandled'),
      unopened: count('unopened'),
    };
  },
  async plan(context, input) {
    return planDirective(context, 'signal.replay', await toParams(context, input));
  },
});

async function toParams(
  context: Context,
  { id, resume, ...filter }: z.output<typeof replayInput>,
): Promise<object> {
  const signal = id === undefined ? undefined : await requireSignal(context, id);
  const { ledger } = context.engine;
  const failed = resume === undefined ? undefined : await findDirectiveById(ledger, resume);
  return {
    ...filter,
    ...(failed === undefined ? {} : { resume: failed.id }),
    ...(signal === undefined ? {} : { signal_id: signal.id }),
  };
}
