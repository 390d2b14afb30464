import { DuctileError, messageOf } from '../base/errors.ts';
import { makeId, makeToken } from '../base/ids.ts';
import { isObject, type Json, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import { testWebhookType, type WebhookTest } from './change-directives.ts';
import type { DeliveryTest, WebhookRequest } from './request.ts';
import { signRequest } from './verify/sign.ts';
import { findChildHops } from '../job/enqueue.service.ts';
import { JOB_ACTOR } from '../job/job.ts';
import type { DirectiveDefinition } from '../directive/define.service.ts';
import { describeMissingWebhook } from './store.service.ts';
import { describeTarget } from './secrets.service.ts';
import type { WebhookIntake, Webhooks } from './webhooks.ts';
import type { KnownWebhook } from './webhook.ts';
import { guardFirstKey, isSameSecret, purposes } from '../access/vault.service.ts';
import type { LedgerContext } from '../engine/context.ts';

export const IN_PROCESS = 'in process, as nothing listens';
export const BY_JOB = 'in process, as a job asks';

/** Carries the secret word by which the listener recognizes a test of its own process. */
const TEST_HEADER = 'x-ductile-test-token';

/** Tests that are on their way to the listener of this process, by their word; each is good once. */
const onTheirWay = new Map<string, DeliveryTest>();

/** The test that a delivery is; undefined for a sender's. */
export function takeTest({ headers }: WebhookRequest): DeliveryTest | undefined {
  const word = headers.find(([name]) => name === TEST_HEADER)?.[1];
  const test = word === undefined ? undefined : onTheirWay.get(word);
  if (word !== undefined) onTheirWay.delete(word);
  return test;
}

/** Delivers through the listener and all checks; the delivery and its signal say whose test it is. */
export function testWebhookDirective(
  context: LedgerContext,
  intake: WebhookIntake,
  webhooks: Pick<Webhooks, 'receive'>,
): DirectiveDefinition<WebhookTest> {
  const { ledger, vault } = context;
  const find = async (id: string): Promise<KnownWebhook> => {
    const known = await intake.store.find(id);
    if (known === undefined) throw await describeMissingWebhook(id, ledger);
    refuseUnsigned(known);
    return known;
  };
  // By directive, until it is executed in the same call.
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
      return [`A test would be delivered to ${id}, and would start ${describeTarget(webhook)}.`];
    },
    prepare(_params, { directiveId, secret }) {
      if (secret !== undefined) payloads.set(directiveId, secret);
      return { work: { kind: 'process' } };
    },
    async execute({ id }, { actor, directiveId, reveal }) {
      const payload = payloads.get(directiveId);
      payloads.delete(directiveId);
      const known = await find(id);
      const test = { actor, directiveId };
      const told = await deliver({ known, payload, test }, context, webhooks);
      reveal({ answer: told.answer });
      // The webhook's response may hold the result of a job, so it isn't recorded.
      const { signal_id: signalId = null } = told.answer;
      return { status: told.status, via: told.via, signal_id: signalId };
    },
  };
}

interface TestDelivery {
  readonly known: KnownWebhook;
  /** JSON text. */
  readonly payload: string | undefined;
  readonly test: DeliveryTest;
}

interface TestResponse {
  readonly status: number;
  readonly answer: JsonObject;
  readonly via: string;
}

async function deliver(
  { known, payload, test }: TestDelivery,
  { ledger, config, reach }: LedgerContext,
  webhooks: Pick<Webhooks, 'receive'>,
): Promise<TestResponse> {
  const { webhook } = known;
  const listener = reach.webhooks ?? reach.api;
  const seen = config.webhooks.publicUrl ?? listener ?? 'http://localhost';
  const named = `test-${makeId()}`;
  const body = payload ?? JSON.stringify({ test: true, delivery: named });
  const request = makeRequest(known, named, `${seen}/hooks/${webhook.id}`, body);
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

/** Refuses what no sender could deliver now. */
function refuseUnsigned({ webhook, secrets }: KnownWebhook): void {
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
  named: string,
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
  const signed = signRequest(webhook.auth, plain, secret, { id: named, nowMs: Date.now() });
  if (signed !== undefined) return signed;
  const message = 'only its sender can sign for a webhook of this form';
  throw new DuctileError('INPUT_INVALID', message, { place: 'auth_mode' });
}

/** Takes the way of a sender's request, through the listener and all. */
async function post(
  via: string,
  request: WebhookRequest,
  test: DeliveryTest,
  timeoutMs: number,
): Promise<TestResponse> {
  const word = makeToken();
  onTheirWay.set(word, test);
  try {
    const response = await fetch(via, {
      method: request.method,
      headers: [
        ...request.headers.map(([name, value]): [string, string] => [name, value]),
        [TEST_HEADER, word],
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
    onTheirWay.delete(word);
  }
}
