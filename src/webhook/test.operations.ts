import * as z from 'zod';
import { isObject } from '../base/json.ts';
import { BY_JOB, IN_PROCESS } from './test-delivery.service.ts';
import { defineOperation } from '../operation/define.ts';
import { direct, directErrors, planDirective, textIn } from '../directive/request.operations.ts';
import { hookId } from './shapes.operations.ts';

export const testWebhook = defineOperation({
  name: 'webhook.test',
  summary: 'Deliver a test to a webhook, signed as its sender would sign it.',
  effect: 'write',
  scope: 'webhooks:rw',
  input: z.strictObject({
    id: hookId,
    payload: z
      .record(z.string(), z.unknown())
      .optional()
      .describe('what is delivered, as JSON (default: a payload that never came before)'),
  }),
  output: z.object({
    status: z.int().describe('the status that the sender would get'),
    answer: z.record(z.string(), z.unknown()),
    via: z
      .string()
      .describe(
        `the address that it was posted to; \`${IN_PROCESS}\` where no server listens, \`${BY_JOB}\` for a running job`,
      ),
    directive_id: z.string().describe('the record of this test'),
  }),
  errors: [
    ...directErrors,
    'CREDENTIAL_KEY_INVALID',
    'CREDENTIAL_KEY_MISSING',
    'FORBIDDEN',
    'INPUT_INVALID',
    'LEDGER_UNAVAILABLE',
    'SERVER_UNREACHABLE',
    'WEBHOOK_NOT_FOUND',
  ],
  // The webhook's response isn't stored: it may hold the result of a job.
  http: { method: 'POST', path: '/webhooks/:id/test', isSecret: true },
  cli: {
    positionals: ['id'],
    examples: ['ductile webhook test deploys', `ductile webhook test deploys --payload '{"n":1}'`],
    exitCode: ({ status }) => (Number(status) < 300 ? 0 : 1),
  },
  async run(context, { id, payload }) {
    const more = payload === undefined ? {} : { secret: JSON.stringify(payload) };
    const { id: directiveId, result } = await direct(context, 'webhook.test', { id }, more);
    const { answer } = result;
    return {
      status: Number(result['status']),
      answer: isObject(answer) ? answer : {},
      via: textIn(result, 'via'),
      directive_id: directiveId,
    };
  },
  plan: (context, { id }) => planDirective(context, 'webhook.test', { id }),
});
