import type { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { answerAccepted, type Answer } from './check.ts';
import type { Failed, Replayed, Taken } from './webhooks.ts';

export interface WebhookResponse {
  readonly answer: Answer;
  /** False for what came before: it starts nothing. */
  readonly isNew: boolean;
  /** Why a verified delivery was refused. */
  readonly refused?: string;
}

const REPLAYED = 'replayed';

/** The response to a delivery that was verified. */
export function toWebhookResponse(
  hookId: string,
  taken: Taken | Failed | Replayed,
): WebhookResponse {
  if ('error' in taken) return { answer: answerFailed(taken), isNew: true };
  if ('isReplay' in taken) {
    // A copy learns nothing about the first delivery.
    const answer = { status: 409, body: { error: REPLAYED } };
    return { answer, isNew: false, refused: REPLAYED };
  }
  return { answer: answerTaken(hookId, taken), isNew: taken.isNew };
}

function answerTaken(hookId: string, taken: Taken): Answer {
  const { signalId, isNew, jobId, runId, skipped, status: first } = taken;
  const { status, body } = answerAccepted(hookId, signalId, !isNew);
  return {
    status,
    body: {
      ...body,
      ...(jobId === undefined ? {} : { job_id: jobId }),
      ...(runId === undefined ? {} : { run_id: runId }),
      ...(first === undefined ? {} : { status: first }),
      ...(skipped === undefined ? {} : { skipped: skipped.replace(/^skipped:/, '') }),
    },
  };
}

/** A missing target may be back when the sender retries; a payload that doesn't fit never will. */
function answerFailed({ error }: Failed): Answer {
  const { status } = error.kind;
  if (status === 404 || status === 503) return answerHindered(error);
  if (error.code === 'IDEMPOTENCY_MISMATCH') {
    return { status: 422, body: { error: 'idempotency_mismatch' } };
  }
  return { status: 422, body: { error: 'payload_refused' } };
}

/** The delivery is fine. The sender gets no details about a problem of this service. */
export function answerHindered({ kind }: DuctileError): Answer {
  const retryAfterSeconds = limits.hookRetryAfterSeconds;
  return kind.status === 429
    ? { status: 429, body: { error: 'rate_limited' }, retryAfterSeconds }
    : { status: 503, body: { error: 'target_unavailable' }, retryAfterSeconds };
}
