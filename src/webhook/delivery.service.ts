import { fromTimestamp } from '../base/clock.ts';
import type { DeliveryRow } from './types.ts';
import { deliveryEventIn } from '../signal/signal.ts';
import { draftEmission } from './accept.service.ts';
import { maskPayload } from '../signal/mask.ts';
import { openPayloads } from '../signal/replay.service.ts';
import { toRunPayload } from '../pipeline/language/pipeline.ts';
import { DuctileError, messageOf } from '../base/errors.ts';
import { makeId, makeToken } from '../base/ids.ts';
import { isObject, type Json, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import { purposes } from '../base/seal.ts';
import {
  replayDeliveryType,
  testWebhookType,
  type DeliveryChoice,
  type WebhookTest,
} from './change-directives.ts';
import type { DeliveryTest, WebhookRequest } from './request.ts';
import { signRequest } from './verify/sign.ts';
import { findChildHops } from '../job/enqueue.service.ts';
import { JOB_ACTOR } from '../job/job.ts';
import type { BoundDirective } from '../directive/define.service.ts';
import { describeMissingWebhook, findEndpoint } from './store.service.ts';
import { expectTest, TEST_HEADER } from './receive.service.ts';
import { describeTarget } from './target.ts';
import type { WebhookIntake, Webhooks } from './webhooks.ts';
import type { KnownWebhook, Webhook } from './webhook.ts';
import { guardFirstKey, isSameSecret } from '../access/vault.service.ts';
import type { LedgerContext } from '../engine/context.ts';

export const IN_PROCESS = 'in process, as nothing listens';
export const BY_JOB = 'in process, as a job asks';

/**
 * Delivers a signed test through the listener and all checks. The delivery and its signal record who
 * requested the test.
 */
export function testWebhookDirective(
  context: LedgerContext,
  intake: WebhookIntake,
  webhooks: Pick<Webhooks, 'receive'>,
): BoundDirective<WebhookTest> {
  const { ledger, vault } = context;
  const find = async (id: string): Promise<KnownWebhook> => {
    const known = await intake.store.find(id);
    if (known === undefined) throw await describeMissingWebhook(id, ledger);
    requireSignable(known);
    return known;
  };
  // By the id of the directive, until it is executed in the same call.
  const payloads = new Map<string, string>();
  return {
    ...testWebhookType,
    async resolve({ id }, { secret, dryRun = false }) {
      if (secret === undefined || dryRun) return { id };
      await guardFirstKey(vault, ledger);
      return { id, fingerprint: vault.fingerprint(secret, purposes.webhook(id)) };
    },
    isSameSecret: ({ id, fingerprint: print }, secret) =>
      isSameSecret(secret, purposes.webhook(id), print, vault),
    async plan({ id }) {
      const { webhook } = await find(id);
      return [
        `A test would be delivered to ${id}, and would start ${describeTarget(webhook.target)}.`,
      ];
    },
    prepare(_params, { directiveId, secret }) {
      if (secret !== undefined) payloads.set(directiveId, secret);
      return {};
    },
    async execute({ id }, { actor, directiveId, reveal }) {
      const payload = payloads.get(directiveId);
      payloads.delete(directiveId);
      const known = await find(id);
      const test = { actor, directiveId };
      const { status, answer, via } = await deliver({ known, payload, test }, context, webhooks);
      reveal({ answer });
      // The webhook's response may hold the result of a job, so it isn't recorded.
      const { signal_id: signalId = null } = answer;
      return { status, via, signal_id: signalId };
    },
  };
}

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

async function deliver(
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
function requireSignable({ webhook, secrets }: KnownWebhook): void {
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
  const message = 'only its sender can sign for a webhook of this form';
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

/** Handles a delivery's signal again, with the current target of its webhook. */
export function replayDeliveryDirective(
  context: LedgerContext,
  intake: WebhookIntake,
): BoundDirective<DeliveryChoice> {
  const { ledger, vault, quota, commits } = context;
  return {
    ...replayDeliveryType,
    async plan({ delivery_id: id }) {
      const { webhook } = await findReplayable(id, context, intake);
      return [`The delivery would be handled once more: ${describeTarget(webhook.target)}.`];
    },
    async execute({ delivery_id: id }, { actor }) {
      const { delivery, webhook } = await findReplayable(id, context, intake);
      const [signal] = await ledger.signals.list({ id: delivery.signalId ?? '', limit: 1 });
      if (signal === undefined) {
        throw new DuctileError('SIGNAL_NOT_FOUND', 'the signal of that delivery is gone');
      }
      const [exact] = await openPayloads([signal], ledger, vault);
      if (exact === undefined || 'refused' in exact)
        throw exact?.refused ?? new Error('no payload');
      const content = {
        webhookId: delivery.webhookId,
        title: webhook.title,
        target: webhook.target,
        sourceEventId: signal.sourceEventId ?? delivery.id,
        payload: toRunPayload(exact.payload),
        event: undefined,
        about: deliveryEventIn(signal),
        again: { signalId: signal.id, atMs: fromTimestamp(signal.occurredAt) },
        hops: Math.max(signal.hops, await findChildHops(actor, ledger)),
      };
      // The signal exists, so only the jobs and runs of this emission are written.
      const { emission } = await draftEmission(content, context.generation, maskPayload);
      const load = { jobs: emission.jobs.length + emission.runs.length, signals: 0 };
      const { events } = await quota.within(load, () =>
        ledger.signals.emit([{ ...emission, rerun: true }]),
      );
      commits.publish(events);
      const result: JsonObject = {
        signal_id: signal.id,
        jobs: emission.jobs.length,
        runs: emission.runs.length,
      };
      return result;
    },
  };
}

/** Finds an accepted delivery and its webhook. Throws if either is missing. */
async function findReplayable(
  id: string,
  { ledger, config }: LedgerContext,
  intake: WebhookIntake,
): Promise<{ delivery: DeliveryRow; webhook: Webhook }> {
  const [delivery] = await ledger.deliveries.list({ id, limit: 1 });
  if (delivery?.signalId === undefined || delivery.signalId === null) {
    const message = `no delivery ${id} was taken`;
    throw new DuctileError('DELIVERY_NOT_FOUND', message, { place: 'delivery_id' });
  }
  const { webhookId } = delivery;
  const known = await intake.store.find(webhookId);
  const webhook = known?.webhook ?? findEndpoint(config.webhooks, webhookId);
  if (webhook !== undefined) return { delivery, webhook };
  throw new DuctileError('WEBHOOK_NOT_FOUND', `there is no webhook ${webhookId} any more`);
}
