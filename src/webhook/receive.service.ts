import { toDuctileError } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import type { JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { isSecretName, maskText, REDACTED } from '../base/secrets.ts';
import { toVisibleText } from '../base/text.ts';
import type { WebhooksConfig } from '../config/config.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import type { UntakenDelivery } from './types.ts';
import { mediaTypeOf, readBody } from './body.ts';
import { decide, type Answer, type Entrance, type Go, type Stop } from './check.ts';
import { nameDelivery, verify, type DeliveryName } from './verify/verify.ts';
import { readDeliveryEvent } from './event-type.ts';
import type { Hook } from './webhook.ts';
import { makeLimiter, type Limiter } from './rate-limit.ts';
import { proofHeadersOf } from './verify/scheme.ts';
import type { Incoming } from './request.ts';
import { traceparentIn } from './metrics.service.ts';
import { knowEndpoint, requireSecrets } from './endpoints.service.ts';
import type { Tenants } from '../tenant/tenants.ts';
import { waitForEnd, type Waiter } from './await-result.service.ts';
import { takeTest } from './test-delivery.service.ts';
import {
  answerHindered,
  toWebhookResponse,
  type HookDoor,
  type KnownHook,
  type Webhooks,
  type WebhookResponse,
} from './webhooks.ts';
import { joinLine } from '../job/completion.service.ts';

/** The part of a tenant's engine that accepts deliveries to its webhooks. */
interface TenantReceiver extends Waiter {
  readonly hooks: HookDoor;
}

export interface WebhooksOptions {
  readonly door: HookDoor;
  readonly engine: Waiter;
  readonly config: () => WebhooksConfig;
  readonly ledger: LedgerSubset<'tenants.findByKey'>;
  readonly tenants: Tenants<TenantReceiver> | undefined;
  readonly log: Log;
}

/** A webhook and the ledger that it is in, until `leave`. */
interface Located {
  readonly known: KnownHook;
  readonly door: HookDoor;
  readonly engine: Waiter;
  leave(): void;
}

export function makeWebhooks(options: WebhooksOptions): Webhooks {
  const { door, engine, config, log } = options;
  const limiter = makeLimiter();
  const receive = async (
    entrance: Entrance,
    incoming: Incoming,
    find: () => Promise<Located | undefined>,
  ): Promise<Answer> => {
    let located: Located | undefined;
    try {
      located = await find();
      return await answer(options, limiter, { entrance, incoming, located });
    } catch (thrown) {
      const error = toDuctileError(thrown);
      if (error.code === 'INTERNAL') throw error;
      // What does not pass by itself must be seen by somebody, and the sender is not told.
      const level = error.kind.status >= 500 && !error.kind.retryable ? 'warn' : 'debug';
      log[level]('a delivery was not taken', { hook_id: located?.known.hook.id, error });
      return answerHindered(error);
    } finally {
      located?.leave();
    }
  };
  return {
    receive: (hookId, incoming) => receive('managed', incoming, () => locate(options, hookId)),
    receiveAt(path, incoming) {
      const endpoint = config().endpoints.find((one) => one.path === path);
      if (endpoint === undefined) return undefined;
      return receive('static', incoming, async () => ({
        known: await knowEndpoint(endpoint, door),
        door,
        engine,
        leave: () => undefined,
      }));
    },
    requireSecrets: () => requireSecrets(config(), door),
  };
}

interface Asked {
  readonly entrance: Entrance;
  readonly incoming: Incoming;
  readonly located: Located | undefined;
}

async function answer(
  { config, log }: WebhooksOptions,
  limiter: Limiter,
  { entrance, incoming, located }: Asked,
): Promise<Answer> {
  const { request, source, isOversize } = incoming;
  const known = located?.known;
  const accepts = config().order === 'compat' ? 'json' : 'all';
  const nowMs = performance.now();
  const decision = decide(config().order, entrance, {
    source: () => limiter.checkSource(source, nowMs),
    isSmall: () => !isOversize && request.rawBody.length <= limits.hookSmallBytes,
    isOversize: () => isOversize,
    isTooLarge: () =>
      isOversize || request.rawBody.length > (known?.hook.maxBodyBytes ?? limits.hookBodyBytesMax),
    isMediaAccepted: () => mediaTypeOf(request, accepts) !== undefined,
    hook: () => stateOf(known),
    verdict: () => {
      const { hook, secrets } = mustKnow(known);
      return verify(hook.auth, request, secrets, Date.now());
    },
    rate: () => {
      const { hook } = mustKnow(known);
      return limiter.spend(budgetOf(hook), hook.ratePerMinute, nowMs);
    },
    body: () => readBody(request, accepts),
  });
  if (decision.kind === 'stop') {
    if (decision.isCharged) limiter.chargeSource(source, nowMs);
    noteStop(decision, limiter, { entrance, incoming, located });
    log.debug('a delivery was not taken', { hook_id: known?.hook.id, reason: decision.outcome });
    return decision.answer;
  }
  const response = await acceptAndRespond(decision, incoming, mustKnow(located), log);
  if (!response.isNew) limiter.giveBack(budgetOf(mustKnow(known).hook));
  if (response.refused !== undefined) {
    const { deliveryId = null } = decision.accepted;
    noteRefused({ deliveryId, reason: response.refused }, limiter, incoming, mustKnow(located));
  }
  return response.answer;
}

function budgetOf({ id }: Hook): string {
  return `hook ${id}`;
}

/** Only of webhooks that are there, and not more than so many: strangers do not fill the ledger. */
function noteStop(stopped: Stop, limiter: Limiter, { incoming, located }: Asked): void {
  const { status } = stopped.answer;
  if (located === undefined || status === 200 || status === 404) return;
  const { hook } = located.known;
  if (status === 429) return located.door.turnedAway.note(hook.id, performance.now());
  const refused = { deliveryId: null, reason: reasonOf(stopped) };
  noteRefused(refused, limiter, incoming, located);
}

function noteRefused(
  refused: Pick<UntakenDelivery, 'deliveryId' | 'reason'>,
  limiter: Limiter,
  incoming: Incoming,
  { known: { hook }, door }: Located,
): void {
  const isKept = limiter.spend(`refused ${hook.id}`, limits.hookRefusalsKept, performance.now()).ok;
  if (isKept) door.note({ ...describe(incoming, hook), hookId: hook.id, ...refused });
}

/** In a few words that can be kept and shown, also where the body has a say in them. */
function reasonOf({ outcome, detail }: Stop): string {
  if (detail === undefined) return outcome;
  return `${outcome}: ${toVisibleText(maskText(detail.slice(0, limits.hookReasonChars)))}`;
}

/** When too many senders already wait for results, accepts the delivery and responds at once. */
async function acceptAndRespond(
  decision: Go,
  incoming: Incoming,
  located: Located,
  log: Log,
): Promise<WebhookResponse> {
  const { engine, known } = located;
  const { id: hookId, waitMs } = known.hook;
  const leave = waitMs > 0 ? joinLine(engine) : undefined;
  if (leave === undefined) {
    return toWebhookResponse(hookId, await take(decision, incoming, located));
  }
  const jobId = makeId();
  const expected = engine.expectEnd(jobId);
  try {
    const taken = await take(decision, incoming, located, jobId);
    const response = toWebhookResponse(hookId, taken);
    if (!('signalId' in taken)) return response;
    const caller = { expected, waitMs, gone: incoming.hungUp?.() };
    const end = await waitForEnd(engine, taken, caller).catch((error: unknown) => {
      // It is committed, so nothing may sound as if it had to be sent again.
      log.warn('what a delivery came to cannot be read', { error });
      return undefined;
    });
    if (end === undefined) return response;
    return { ...response, answer: { status: 200, body: { ...response.answer.body, ...end } } };
  } finally {
    expected.drop();
    leave();
  }
}

/** With the id of its job when somebody stays on the line. */
async function take(
  { accepted, payload, event }: Go,
  incoming: Incoming,
  { known: { hook }, door }: Located,
  jobId?: string,
): ReturnType<HookDoor['take']> {
  const name = nameDelivery(hook.auth, accepted, incoming.request, { payload, event });
  return await door.take({
    ...describe(incoming, hook),
    hookId: hook.id,
    title: hook.title,
    target: hook.target,
    ...name,
    isStrict: hook.replay === 'strict',
    payload,
    event,
    about: describeEvent(hook, incoming, { payload, event, deliveryId: name.deliveryId }),
    jobId,
    isAwaited: jobId !== undefined,
    traceparent: traceparentIn(incoming),
    ...(incoming.hops === undefined ? {} : { hops: incoming.hops }),
    test: incoming.test ?? takeTest(incoming.request),
  });
}

function stateOf(known: KnownHook | undefined): 'unknown' | 'disabled' | 'enabled' {
  if (known === undefined) return 'unknown';
  return known.hook.enabled ? 'enabled' : 'disabled';
}

async function locate(
  { door, engine, ledger, tenants }: WebhooksOptions,
  hookId: string,
): Promise<Located | undefined> {
  const known = await door.store.find(hookId);
  if (known !== undefined) return { known, door, engine, leave: () => undefined };
  if (tenants === undefined || hookId.length > limits.hookIdCharsMax) return undefined;
  const slug = await ledger.tenants.findByKey('hook', hookId);
  const visit = slug === undefined ? undefined : await visitIfThere(tenants, slug);
  if (visit === undefined) return undefined;
  try {
    const { engine: theirs } = visit;
    const found = await theirs.hooks.store.find(hookId);
    if (found !== undefined) {
      return { known: found, door: theirs.hooks, engine: theirs, leave: () => visit.end() };
    }
  } catch (error) {
    visit.end();
    throw error;
  }
  visit.end();
  return undefined;
}

async function visitIfThere(tenants: Tenants<TenantReceiver>, slug: string) {
  try {
    return await tenants.visit(slug);
  } catch (thrown) {
    if (toDuctileError(thrown).code === 'TENANT_NOT_FOUND') return undefined;
    throw thrown;
  }
}

/** The event type and headers of the request; undefined if it has neither. */
function describeEvent(
  { id, eventRules }: Hook,
  { request }: Incoming,
  {
    payload,
    event: cloudEvent,
    deliveryId,
  }: Pick<Go, 'payload' | 'event'> & Pick<DeliveryName, 'deliveryId'>,
): JsonObject | undefined {
  const { eventType, event, headers } = readDeliveryEvent(eventRules, request, payload, cloudEvent);
  const hasHeaders = Object.keys(headers).length > 0;
  if (eventType === undefined && !hasHeaders) return undefined;
  return {
    id,
    ...(event === undefined ? {} : { event }),
    ...(eventType === undefined ? {} : { event_type: eventType }),
    ...(deliveryId === null ? {} : { delivery_id: deliveryId }),
    ...(hasHeaders ? { headers } : {}),
  };
}

function describe(incoming: Incoming, { auth }: Hook) {
  const { request, source, bodyBytes = request.rawBody.length } = incoming;
  const proof = proofHeadersOf(auth);
  const headers = request.headers.map(([name, value]) => [
    name,
    proof.has(name) ? REDACTED : redactHeader(name, value),
  ]);
  return { source, headers: JSON.stringify(headers), bodyBytes };
}

const PROOF = /auth|cookie|signature|hmac|token|secret|key/;

function redactHeader(name: string, value: string): string {
  if (PROOF.test(name) || isSecretName(name)) return REDACTED;
  return maskText(value.slice(0, limits.hookHeaderKeptChars));
}

function mustKnow<T>(known: T | undefined): T {
  if (known === undefined) throw new TypeError('the chain asked about a webhook that is not there');
  return known;
}
