import { isForm, readForm } from '../body.ts';
import { digestOf, findSigner, isSame, sign, type Signing } from './mac.ts';
import { takeHeader, type HookRequest } from '../request.ts';
import { refuse, type OncePolicy, type Refused } from './verdict.ts';

/** Twilio signs the address, and of the body its fields in order or a digest in the address. */
export interface TwilioScheme {
  readonly kind: 'twilio';
  readonly header: string;
  readonly idHeaders: readonly string[];
  readonly once: OncePolicy;
}

const signing: Signing = {
  algorithm: 'sha1',
  encoding: 'base64',
  key: { encoding: 'utf8', prefix: '' },
};

export interface TwilioSigned {
  readonly secretIndex: number;
  readonly once: OncePolicy;
  readonly parts: readonly string[];
}

export function verifyTwilio(
  { header, once }: TwilioScheme,
  request: HookRequest,
  secrets: readonly string[],
): TwilioSigned | Refused {
  const taken = takeHeader(request, header);
  if (!taken.ok) return refuse(taken.reason);
  if (!URL.canParse(request.url)) return refuse('url_invalid');
  const fields = fieldsOf(request);
  if (typeof fields !== 'string') return fields;
  const spellings = spellingsOf(request.url);
  for (const url of spellings) {
    const secretIndex = findSigner(secrets, [taken.value], [url, fields], signing);
    // Nothing marks where the address ends, so whoever has a copy can move fields into it: what
    // was signed stays the same text, and that in one spelling is what it is known by.
    if (secretIndex !== undefined) return { secretIndex, once, parts: [spellings[0], fields] };
  }
  return refuse('signature_wrong');
}

/** The request as Twilio sends what is no form: with a digest of its body in its address. */
export function signTwilio(
  { header }: TwilioScheme,
  request: HookRequest,
  secret: string,
): HookRequest {
  const separator = request.url.includes('?') ? '&' : '?';
  const url = `${request.url}${separator}bodySHA256=${digestOf([request.rawBody])}`;
  const signature = sign(Buffer.from(secret), [url], signing);
  return { ...request, url, headers: [...request.headers, [header, signature]] };
}

/** What is signed after the address. */
function fieldsOf(request: HookRequest): string | Refused {
  const [digest, ...more] = new URL(request.url).searchParams.getAll('bodySHA256');
  if (more.length > 0) return refuse('url_invalid');
  if (digest !== undefined) {
    const actual = Buffer.from(digestOf([request.rawBody]));
    return isSame(actual, Buffer.from(digest.toLowerCase())) ? '' : refuse('body_changed');
  }
  if (request.rawBody.length === 0) return '';
  const type = takeHeader(request, 'content-type');
  if (!type.ok || !isForm(type.value)) return refuse('body_unsigned');
  const form = readForm(request.rawBody);
  if (!form.ok) return refuse('signature_malformed');
  return [...form.fields]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([name, values]) =>
      [...new Set(values)].toSorted((a, b) => (a < b ? -1 : 1)).map((value) => name + value),
    )
    .join('');
}

const PORTS: Readonly<Record<string, string>> = { 'https:': '443', 'http:': '80' };

/** The address without its usual port, and with it: which one was signed differs. */
function spellingsOf(url: string): readonly [string, ...string[]] {
  const { protocol, host, port } = new URL(url);
  const usual = PORTS[protocol];
  if (usual === undefined || port !== '') return [url];
  // Only behind the host as it was written: everything else in it stays byte for byte.
  const start = url.indexOf('//') + 2;
  const written = /^[^/?#]*/.exec(url.slice(start))?.[0] ?? host;
  const bare = written.endsWith(`:${usual}`) ? written.slice(0, -usual.length - 1) : written;
  const [lead, rest] = [url.slice(0, start), url.slice(start + written.length)];
  return [`${lead}${bare}${rest}`, `${lead}${bare}:${usual}${rest}`];
}
