import { keyOf, sign } from './mac.ts';
import { fillPayload, type Part, type SignedScheme } from './signed.ts';
import type { HookRequest } from '../request.ts';
import type { OneScheme, Scheme } from './scheme.ts';
import { signTwilio, type TwilioScheme } from './twilio.ts';

/** A request as its sender would send it, so that it is verified; undefined when that cannot be told. */
export function signRequest(
  scheme: Scheme,
  request: HookRequest,
  secret: string,
  { id, nowMs }: { readonly id: string; readonly nowMs: number },
): HookRequest | undefined {
  const one = scheme.kind === 'any' ? scheme.of[0] : scheme;
  const named = one.idHeaders.slice(0, 1).map((name) => [name, id] as const);
  const whole = { ...request, headers: [...request.headers, ...named] };
  if (one.kind === 'twilio') return signTwilio(one, whole, secret);
  const proof = proofOf(one, { request: whole, secret, nowMs });
  return proof === undefined ? undefined : { ...whole, headers: [...whole.headers, ...proof] };
}

function proofOf(one: Exclude<OneScheme, TwilioScheme>, signed: Signed): Headers | undefined {
  const { request, secret } = signed;
  if (one.kind === 'token') return [[one.header, `${one.lead}${secret}`]];
  if (one.kind === 'signed') return signGenerally(one, signed);
  return isPlain(one) ? [[one.header, `${one.prefix}${macOf(one, request, secret)}`]] : undefined;
}

type Headers = readonly (readonly [name: string, value: string])[];

/** What stands in its header is what is compared: no pattern has to be met. */
function isPlain(scheme: OneScheme): scheme is Extract<OneScheme, { kind: 'hmac' }> {
  return (
    scheme.kind === 'hmac' && scheme.signature === undefined && scheme.payloadPrefix === undefined
  );
}

function macOf(
  { algorithm, encoding }: Extract<OneScheme, { kind: 'hmac' }>,
  { rawBody }: HookRequest,
  secret: string,
): string {
  return sign(Buffer.from(secret), [rawBody], { algorithm, encoding });
}

interface Signed {
  readonly request: HookRequest;
  readonly secret: string;
  readonly nowMs: number;
}

function signGenerally(
  scheme: SignedScheme,
  { request, secret, nowMs }: Signed,
): Headers | undefined {
  const key = keyOf(secret, scheme.key);
  if (key === undefined) return undefined;
  const { timestamp } = scheme;
  const time = String(Math.floor(nowMs / (timestamp?.unit === 'ms' ? 1 : 1000)));
  const inHeader = timestamp?.part.kind === 'header' ? [[timestamp.part.name, time] as const] : [];
  const entries = scheme.payload.flatMap((part) => entryOf(part, timestamp?.part, time));
  const whole = { ...request, headers: [...request.headers, ...inHeader] };
  const filled = fillPayload(scheme.payload, whole, entries);
  if (!filled.ok) return undefined;
  const signature = `${scheme.prefix}${sign(key, filled.parts, scheme)}`;
  return [...inHeader, [scheme.header, [...entries, signature].join(scheme.separator)]];
}

/** An entry that is not the time is something that only the sender knows. */
function entryOf(part: Part, timestamp: Part | undefined, time: string): string[] {
  if (part.kind !== 'entry') return [];
  const isTime = timestamp?.kind === 'entry' && timestamp.name === part.name;
  return isTime ? [`${part.name}=${time}`] : [];
}
