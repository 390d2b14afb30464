import { digestParts, findSigner, isSameBytes, createSignature, type SigningForm } from './mac.ts';
import { isForm, readForm, readHeader, type WebhookRequest } from '../request.ts';
import { refuseProof, type OncePolicy, type RefusedProof } from './verdict.ts';

/**
 * Twilio signs the address, plus the sorted fields of the body or a digest of it in the address.
 */
export interface TwilioScheme {
  readonly kind: 'twilio';
  readonly header: string;
  readonly idHeaders: readonly string[];
  readonly once: OncePolicy;
}

const signing: SigningForm = {
  algorithm: 'sha1',
  encoding: 'base64',
  key: { encoding: 'utf8', prefix: '' },
};

interface TwilioProof {
  readonly secretIndex: number;
  readonly once: OncePolicy;
  readonly parts: readonly string[];
}

export function verifyTwilio(
  { header, once }: TwilioScheme,
  request: WebhookRequest,
  secrets: readonly string[],
): TwilioProof | RefusedProof {
  const found = readHeader(request, header);
  if (!found.ok) return refuseProof(found.reason);
  if (!URL.canParse(request.url)) return refuseProof('url_invalid');
  const fields = fieldsOf(request);
  if (typeof fields !== 'string') return fields;
  const spellings = spellingsOf(request.url);
  for (const url of spellings) {
    const secretIndex = findSigner(secrets, [found.value], [url, fields], signing);
    // Nothing marks the end of the address, so an attacker can move fields into it without changing
    // the signed text. The delivery is identified by one spelling of that text.
    if (secretIndex !== undefined) return { secretIndex, once, parts: [spellings[0], fields] };
  }
  return refuseProof('signature_wrong');
}

/** Signs a request that isn't a form. Twilio puts the digest of the body into the address. */
export function signTwilio(
  { header }: TwilioScheme,
  request: WebhookRequest,
  secret: string,
): WebhookRequest {
  const separator = request.url.includes('?') ? '&' : '?';
  const url = `${request.url}${separator}bodySHA256=${digestParts([request.rawBody])}`;
  const signature = createSignature(Buffer.from(secret), [url], signing);
  return { ...request, url, headers: [...request.headers, [header, signature]] };
}

/** Returns the signed text after the address. */
function fieldsOf(request: WebhookRequest): string | RefusedProof {
  const [digest, ...more] = new URL(request.url).searchParams.getAll('bodySHA256');
  if (more.length > 0) return refuseProof('url_invalid');
  if (digest !== undefined) {
    const actual = Buffer.from(digestParts([request.rawBody]));
    return isSameBytes(actual, Buffer.from(digest.toLowerCase()))
      ? ''
      : refuseProof('body_changed');
  }
  if (request.rawBody.length === 0) return '';
  const type = readHeader(request, 'content-type');
  if (!type.ok || !isForm(type.value)) return refuseProof('body_unsigned');
  const form = readForm(request.rawBody);
  if (!form.ok) return refuseProof('signature_malformed');
  return [...form.fields]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([name, values]) =>
      [...new Set(values)].toSorted((a, b) => (a < b ? -1 : 1)).map((value) => name + value),
    )
    .join('');
}

const PORTS: Readonly<Record<string, string>> = { 'https:': '443', 'http:': '80' };

/** Returns the address without and with its default port. Twilio signs either. */
function spellingsOf(url: string): readonly [string, ...string[]] {
  const { protocol, host, port } = new URL(url);
  const usual = PORTS[protocol];
  if (usual === undefined || port !== '') return [url];
  // The port is inserted only behind the host. Everything else stays byte for byte.
  const start = url.indexOf('//') + 2;
  const written = /^[^/?#]*/.exec(url.slice(start))?.[0] ?? host;
  const bare = written.endsWith(`:${usual}`) ? written.slice(0, -usual.length - 1) : written;
  const [lead, rest] = [url.slice(0, start), url.slice(start + written.length)];
  return [`${lead}${bare}${rest}`, `${lead}${bare}:${usual}${rest}`];
}
