import { createHmac } from 'node:crypto';
import type { WebhookRequest } from '../../src/webhook/request.ts';

/** When the vectors were signed. */
export const AT = 1_700_000_000_000;
export const BODY = '{"id":"evt_1","type":"ping"}';

type Headers = Readonly<Record<string, string>> | readonly (readonly [string, string])[];

export function makeRequest(
  headers: Headers,
  body: string | Buffer = BODY,
  url = 'https://hooks.example/hooks/h',
): WebhookRequest {
  const pairs = Array.isArray(headers) ? headers : Object.entries(headers);
  return { method: 'POST', url, headers: pairs, rawBody: Buffer.from(body) };
}

export function sign(
  key: string | Buffer,
  text: string,
  algorithm = 'sha256',
  encoding: 'hex' | 'base64' = 'hex',
): string {
  return createHmac(algorithm, key).update(text).digest(encoding);
}

/** The text with one character made another one of the same kind. */
export function mutate(text: string, at: number): string {
  const char = text.charAt(at);
  const other = char === 'a' ? 'b' : 'a';
  return text.slice(0, at) + other + text.slice(at + 1);
}
