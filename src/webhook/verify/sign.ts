import { parseKey, createSignature } from './mac.ts';
import { fillPayload, type PayloadPart, type SignedScheme } from './signed.ts';
import type { WebhookRequest } from '../request.ts';
import type { SingleScheme, Scheme } from './verify.ts';
import { signTwilio, type TwilioScheme } from './twilio.ts';

/** Signs a request as its sender would. Undefined if the scheme can't be reproduced. */
export function signRequest(
  scheme: Scheme,
  request: WebhookRequest,
  secret: string,
  { id, nowMs }: { readonly id: string; readonly nowMs: number },
): WebhookRequest | undefined {
  const one = scheme.kind === 'any' ? scheme.of[0] : scheme;
  const named = one.idHeaders.slice(0, 1).map((name) => [name, id] as const);
  const whole = { ...request, headers: [...request.headers, ...named] };
  if (one.kind === 'twilio') return signTwilio(one, whole, secret);
  const proof = proofOf(one, { request: whole, secret, nowMs });
  return proof === undefined ? undefined : { ...whole, headers: [...whole.headers, ...proof] };
}

function proofOf(
  one: Exclude<SingleScheme, TwilioScheme>,
  signed: SigningRequest,
): Headers | undefined {
  const { request, secret } = signed;
  if (one.kind === 'token') return [[one.header, `${one.lead}${secret}`]];
  if (one.kind === 'signed') return signGenerally(one, signed);
  return isPlain(one) ? [[one.header, `${one.prefix}${macOf(one, request, secret)}`]] : undefined;
}

type Headers = readonly (readonly [name: string, value: string])[];

/** True for a header that is only the signature, without patterns. */
function isPlain(scheme: SingleScheme): scheme is Extract<SingleScheme, { kind: 'hmac' }> {
  return (
    scheme.kind === 'hmac' && scheme.signature === undefined && scheme.payloadPrefix === undefined
  );
}

function macOf(
  { algorithm, encoding }: Extract<SingleScheme, { kind: 'hmac' }>,
  { rawBody }: WebhookRequest,
  secret: string,
): string {
  return createSignature(Buffer.from(secret), [rawBody], { algorithm, encoding });
}

interface SigningRequest {
  readonly request: WebhookRequest;
  readonly secret: string;
  readonly nowMs: number;
}

function signGenerally(
  scheme: SignedScheme,
  { request, secret, nowMs }: SigningRequest,
): Headers | undefined {
  const key = parseKey(secret, scheme.key);
  if (key === undefined) return undefined;
  const { timestamp } = scheme;
  const time = String(Math.floor(nowMs / (timestamp?.unit === 'ms' ? 1 : 1000)));
  const inHeader = timestamp?.part.kind === 'header' ? [[timestamp.part.name, time] as const] : [];
  const entries = scheme.payload.flatMap((part) => entryOf(part, timestamp?.part, time));
  const whole = { ...request, headers: [...request.headers, ...inHeader] };
  const filled = fillPayload(scheme.payload, whole, entries);
  if (!filled.ok) return undefined;
  const signature = `${scheme.prefix}${createSignature(key, filled.parts, scheme)}`;
  return [...inHeader, [scheme.header, [...entries, signature].join(scheme.separator)]];
}

/** Only the sender knows entries other than the time. */
function entryOf(part: PayloadPart, timestamp: PayloadPart | undefined, time: string): string[] {
  if (part.kind !== 'entry') return [];
  const isTime = timestamp?.kind === 'entry' && timestamp.name === part.name;
  return isTime ? [`${part.name}=${time}`] : [];
}
