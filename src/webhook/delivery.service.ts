import { DuctileError, messageOf } from '../base/errors.ts';
import { makeId, makeToken } from '../base/ids.ts';
import { isObject, type Json, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import type { DeliveryTest, WebhookRequest } from './request.ts';
import { signRequest } from './verify/sign.ts';
import { findChildHops } from '../job/enqueue.service.ts';
import { JOB_ACTOR } from '../job/job.ts';
import { expectTest, TEST_HEADER } from './receive.service.ts';
import type { Webhooks } from './webhooks.ts';
import type { KnownWebhook } from './webhook.ts';
import type { LedgerContext } from '../engine/context.ts';

export const IN_PROCESS = 'in process, because no server listens';
export const BY_JOB = 'in process, because a job requested it';

/** A test to deliver. */
interface TestDelivery {
  readonly known: KnownWebhook;
  /** JSON text. */
  readonly payload: string | undefined;
  readonly test: DeliveryTest;
}

interface TestResponse {
  readonly status: number;
  /** The body of the response, or the body as `answer` if it isn't an object. */
  readonly answer: JsonObject;
  /** The address that the test was posted to, or `IN_PROCESS` or `BY_JOB`. */
  readonly via: string;
}

/** Delivers a test through the listener, or in this process. */
export async function deliverTest(
  { known, payload, test }: TestDelivery,
  { ledger, config, reach }: LedgerContext,
  webhooks: Pick<Webhooks, 'receive'>,
): Promise<TestResponse> {
  const { webhook } = known;
  const listener = reach.webhooks ?? reach.api;
  const origin = config.webhooks.publicUrl ?? listener ?? 'http://localhost';
  const deliveryId = `test-${makeId()}`;
  const body = payload ?? JSON.stringify({ test: true, delivery: deliveryId });
  const request = makeRequest(known, deliveryId, `${origin}/hooks/${webhook.id}`, body);
  // The test continues to count the job's hops. A header couldn't carry them: a sender could write it, too.
  const isJob = test.actor.startsWith(JOB_ACTOR);
  if (isJob || listener === undefined) {
    const hops = isJob ? { hops: await findChildHops(test.actor, ledger) } : {};
    const incoming = { request, source: 'test', isOversize: false, test, ...hops };
    const { status, body: answer } = await webhooks.receive(webhook.id, incoming);
    return { status, answer, via: isJob ? BY_JOB : IN_PROCESS };
  }
  const { search } = new URL(request.url);
  const timeoutMs = webhook.waitMs + limits.webhookRespondMs;
  return await post(`${listener}/hooks/${webhook.id}${search}`, request, test, timeoutMs);
}

/** Throws if the webhook is disabled, or has no secret to sign a delivery with. */
export function requireSignable({ webhook, secrets }: KnownWebhook): void {
  const { id, enabled } = webhook;
  if (!enabled) {
    throw new DuctileError('INPUT_INVALID', `the webhook ${id} is disabled`, {
      place: 'enabled',
      hint: `Enable it with \`ductile webhook edit ${id} --enabled=true\`.`,
    });
  }
  if (secrets.length > 0) return;
  throw new DuctileError('INPUT_INVALID', `the webhook ${id} has no secret to sign with`, {
    place: 'credential',
    hint: `Create one with \`ductile webhook rotate ${id}\`, or set the credential that it names.`,
  });
}

function makeRequest(
  { webhook, secrets }: KnownWebhook,
  deliveryId: string,
  url: string,
  body: string,
): WebhookRequest {
  const plain: WebhookRequest = {
    method: 'POST',
    url,
    headers: [['content-type', 'application/json']],
    rawBody: Buffer.from(body),
  };
  const [secret = ''] = secrets;
  const signed = signRequest(webhook.auth, plain, secret, { id: deliveryId, nowMs: Date.now() });
  if (signed !== undefined) return signed;
  const message = 'only the sender can sign deliveries for these authentication settings';
  throw new DuctileError('INPUT_INVALID', message, { place: 'auth_mode' });
}

/** Posts the test to the listener of this process, as its sender would. */
async function post(
  via: string,
  request: WebhookRequest,
  test: DeliveryTest,
  timeoutMs: number,
): Promise<TestResponse> {
  const token = makeToken();
  const revokeToken = expectTest(token, test);
  try {
    const response = await fetch(via, {
      method: request.method,
      headers: [
        ...request.headers.map(([name, value]): [string, string] => [name, value]),
        [TEST_HEADER, token],
      ],
      body: new Uint8Array(request.rawBody),
      redirect: 'manual',
      signal: AbortSignal.timeout(timeoutMs),
    });
    const answer = parseJson(await response.text()) as Json;
    return { status: response.status, answer: isObject(answer) ? answer : { answer }, via };
  } catch (thrown) {
    const message = `${via} did not respond: ${messageOf(thrown)}`;
    throw new DuctileError('SERVER_UNREACHABLE', message, { place: via, cause: thrown });
  } finally {
    revokeToken();
  }
}
