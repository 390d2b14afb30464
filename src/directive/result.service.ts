import * as z from 'zod';
import { directiveStatuses } from './directive.ts';
import type { DirectAnswer } from './directive-result.service.ts';

/** What became of a directive, for whoever asked for it or decided about it. */
export const answerShape = z.object({
  directive_id: z.string(),
  status: z.enum(directiveStatuses),
  awaiting_approval: z.boolean().describe('nothing happens until somebody approves it'),
  run_at: z.string().nullable().describe('not begun before; null when it was begun at once'),
  plan: z.array(z.string()),
  result: z.unknown(),
  error_kind: z.string().nullable().describe('its code, as in the list of errors'),
  error_message: z.string().nullable(),
  repeated: z.boolean().describe('it had been asked for before; this is what became of it'),
});

export function showAnswer(answer: DirectAnswer): z.output<typeof answerShape> {
  return {
    directive_id: answer.id ?? '',
    status: answer.status,
    awaiting_approval: answer.awaitingApproval,
    run_at: answer.runAt,
    plan: [...answer.plan],
    result: answer.result,
    error_kind: answer.errorCode,
    error_message: answer.error,
    repeated: answer.repeated,
  };
}
