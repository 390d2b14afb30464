import type { JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { unquote } from '../base/text.ts';
import { digestOf } from './verify/mac.ts';
import { takeHeader, type HookRequest } from './request.ts';
import { choose, type Scheme } from './verify/scheme.ts';
import { refuse, type Accepted, type Refused } from './verify/verdict.ts';

/** What a verified delivery is known by, so that the same again is seen to be the same. */
export interface DeliveryName {
  /** What its sender calls it. */
  readonly deliveryId: string | null;
  /** A digest of what may come only once. */
  readonly replayKey: string | null;
}

const KEY = 'idempotency-key';

/** How digests of a key with its body begin: under the same key, another one is another body. */
const KEYED = 'keyed:';

export function nameDelivery(
  scheme: Scheme,
  accepted: Accepted,
  request: HookRequest,
  { payload, event }: { readonly payload: JsonObject; readonly event: JsonObject | undefined },
): DeliveryName {
  const name = findDeliveryId(scheme, accepted.deliveryId, payload, event);
  const isKey = name !== undefined && name === keyIn(scheme, request);
  const keyed = isKey ? `${KEYED}${digestOf([name, '\n', request.rawBody])}` : undefined;
  return { deliveryId: name ?? null, replayKey: accepted.replayKey ?? keyed ?? null };
}

/** Whether what has the name of an earlier delivery is another one, as far as that can be told. */
export function isKeyReused(earlier: string | null, later: string | null): boolean {
  const areKeyed = earlier?.startsWith(KEYED) === true && later?.startsWith(KEYED) === true;
  return areKeyed && earlier !== later;
}

function keyIn(scheme: Scheme, request: HookRequest): string | undefined {
  const isTaken = choose(scheme, request).idHeaders.includes(KEY);
  const taken = isTaken ? takeHeader(request, KEY) : undefined;
  return taken?.ok === true ? shortenId(nameIn(KEY, taken.value)) : undefined;
}

/**
 * What the sender calls a verified delivery, now that its payload is known as well; undefined when
 * it has no name. An event has the name that it brought, unless a header with another was signed.
 */
export function findDeliveryId(
  scheme: Scheme,
  inHeaders: string | undefined,
  payload: JsonObject,
  event: JsonObject | undefined,
): string | undefined {
  if (inHeaders !== undefined && (event === undefined || signsName(scheme))) return inHeaders;
  const field = scheme.kind === 'signed' ? scheme.idField : undefined;
  const value = field !== undefined && Object.hasOwn(payload, field) ? payload[field] : undefined;
  if (typeof value === 'string' && value !== '') return shortenId(value);
  if (event === undefined) return undefined;
  return shortenId(JSON.stringify([event['source'], event['source_event_id']]));
}

function signsName(scheme: Scheme): boolean {
  if (scheme.kind === 'any') return scheme.of.every(signsName);
  if (scheme.kind !== 'signed') return false;
  const signed = scheme.payload.flatMap((part) => (part.kind === 'header' ? [part.name] : []));
  return scheme.idHeaders.every((name) => signed.includes(name));
}

/** The first of these headers that names it. */
export function idInHeaders(
  names: readonly string[],
  request: HookRequest,
): string | Refused | undefined {
  for (const name of names) {
    const taken = takeHeader(request, name);
    if (!taken.ok && taken.reason !== 'header_missing') return refuse(taken.reason);
    const id = taken.ok ? nameIn(name, taken.value) : '';
    if (id !== '') return shortenId(id);
  }
  return undefined;
}

/** An idempotency key is text in quotes, as its draft has it, which many leave out. */
function nameIn(header: string, value: string): string {
  return header === KEY ? unquote(value) : value;
}

/** A long id is kept as its digest. */
export function shortenId(id: string): string {
  return id.length <= limits.deliveryIdCharsMax ? id : `sha256:${digestOf([id])}`;
}
