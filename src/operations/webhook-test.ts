import * as z from 'zod';
import { DuctileError, messageOf } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import { isObject, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { refuseLoop } from '../engine/cause.ts';
import { hookNotFound } from '../engine/hook-find.ts';
import type { KnownHook } from '../engine/hooks.ts';
import type { HookRequest, Incoming } from '../webhook/request.ts';
import { signRequest } from '../webhook/sign.ts';
import type { Context } from './context.ts';
import { defineOperation } from './define.ts';
import { refuseDeniedDelivery } from './denied.ts';
import { hookId } from './webhook-shapes.ts';

const IN_PROCESS = 'in process, as nothing listens';
const BY_JOB = 'in process, as a job asks';

export const testWebhook = defineOperation({
  name: 'webhook.test',
  summary: 'Deliver something to a webhook, signed as its sender would.',
  effect: 'write',
  scope: 'webhooks:rw',
  input: z.strictObject({
    id: hookId,
    payload: z
      .record(z.string(), z.unknown())
      .optional()
      .describe('what is delivered, as JSON; something that never came before unless told'),
  }),
  output: z.object({
    status: z.int().describe('what the sender would be answered'),
    answer: z.record(z.string(), z.unknown()),
    via: z
      .string()
      .describe(
        `the address that it was posted to; \`${IN_PROCESS}\` where no server listens, \`${BY_JOB}\` for a running job`,
      ),
  }),
  errors: [
    'FORBIDDEN',
    'HOPS_EXCEEDED',
    'INPUT_INVALID',
    'LEDGER_UNAVAILABLE',
    'SERVER_UNREACHABLE',
    'STOPPING',
    'WEBHOOK_NOT_FOUND',
  ],
  http: { method: 'POST', path: '/webhooks/:id/test' },
  cli: {
    positionals: ['id'],
    examples: ['ductile webhook test deploys', `ductile webhook test deploys --payload '{"n":1}'`],
    exitCode: ({ status }) => (Number(status) < 300 ? 0 : 1),
  },
  async run({ engine, principal }, { id, payload }) {
    const { cause } = principal;
    refuseLoop(cause, engine.config.service.maxHops);
    await refuseDeniedTest({ engine, principal }, id);
    const known = await engine.hooks.store.find(id);
    if (known === undefined) throw await hookNotFound(id, engine.ledger);
    const listener = engine.reach.hooks ?? engine.reach.api;
    const seen = engine.config.webhooks.publicUrl ?? listener ?? 'http://localhost';
    refuseUnsigned(known);
    const named = `test-${makeId()}`;
    const sent = payload ?? { test: true, delivery: named };
    const request = makeRequest(known, named, `${seen}/hooks/${id}`, sent);
    // No header says how far a delivery is from its first cause: a stranger could write it, too.
    if (cause !== undefined)
      return await hand(engine, id, { request, hops: cause.hops + 1 }, BY_JOB);
    if (listener === undefined) return await hand(engine, id, { request }, IN_PROCESS);
    const { search } = new URL(request.url);
    return await post(
      `${listener}/hooks/${id}${search}`,
      request,
      known.hook.waitMs + limits.hookRespondMs,
    );
  },
  async plan(context, { id }) {
    await refuseDeniedTest(context, id);
    return [`Something would be delivered to ${id}, and whatever that starts is started.`];
  },
});

async function refuseDeniedTest(
  context: Pick<Context, 'engine' | 'principal'>,
  id: string,
): Promise<void> {
  const { ledger } = context.engine;
  const row = await ledger.webhook(id);
  if (row === undefined) throw await hookNotFound(id, ledger);
  refuseDeniedDelivery(context, id, JSON.parse(row.settings) as JsonObject);
}

interface Told {
  status: number;
  answer: Record<string, unknown>;
  via: string;
}

/** What nobody could deliver now, whoever signs it. */
function refuseUnsigned({ hook, secrets }: KnownHook): void {
  const { id, enabled } = hook;
  if (!enabled) {
    throw new DuctileError('INPUT_INVALID', `the webhook ${id} is switched off`, {
      place: 'enabled',
      hint: `Switch it on with \`ductile webhook edit ${id} --enabled=true\`.`,
    });
  }
  if (secrets.length > 0) return;
  throw new DuctileError('INPUT_INVALID', `the webhook ${id} has no secret to sign with`, {
    place: 'credential',
    hint: `Make one with \`ductile webhook rotate ${id}\`, or set the credential that it names.`,
  });
}

function makeRequest(
  { hook, secrets }: KnownHook,
  named: string,
  url: string,
  payload: object,
): HookRequest {
  const plain: HookRequest = {
    method: 'POST',
    url,
    headers: [['content-type', 'application/json']],
    rawBody: Buffer.from(JSON.stringify(payload)),
  };
  const [secret = ''] = secrets;
  const signed = signRequest(hook.auth, plain, secret, { id: named, nowMs: Date.now() });
  if (signed !== undefined) return signed;
  const message = 'only its sender can sign for a webhook of this form';
  throw new DuctileError('INPUT_INVALID', message, { place: 'auth_mode' });
}

/** The way that a sender's request takes, through the listener and all. */
async function post(via: string, request: HookRequest, timeoutMs: number): Promise<Told> {
  try {
    const response = await fetch(via, {
      method: request.method,
      headers: request.headers.map(([name, value]): [string, string] => [name, value]),
      body: new Uint8Array(request.rawBody),
      redirect: 'manual',
      signal: AbortSignal.timeout(timeoutMs),
    });
    const answer: unknown = await response.json();
    return { status: response.status, answer: isObject(answer) ? answer : { answer }, via };
  } catch (thrown) {
    const message = `${via} did not answer: ${messageOf(thrown)}`;
    throw new DuctileError('SERVER_UNREACHABLE', message, { place: via, cause: thrown });
  }
}

/** Through the same checks; what it starts waits on the ledger for a server. */
async function hand(
  engine: Context['engine'],
  id: string,
  delivery: Pick<Incoming, 'request' | 'hops'>,
  via: string,
): Promise<Told> {
  const incoming = { ...delivery, source: 'test', isOversize: false };
  const { status, body } = await engine.webhooks.receive(id, incoming);
  return { status, answer: body, via };
}
