import { takeHeader, type HeaderFault, type HookRequest } from './request.ts';

/** A piece of what is signed. */
export type Part =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'header'; readonly name: string }
  /** A named entry of the signature header, such as `t=` in front of a time. */
  | { readonly kind: 'entry'; readonly name: string }
  | { readonly kind: 'body' }
  | { readonly kind: 'url' }
  | { readonly kind: 'method' };

export type ParsedPayload =
  | { readonly ok: true; readonly parts: readonly Part[] }
  | { readonly ok: false; readonly message: string; readonly hint: string };

const FORM =
  'Write it like {header:X-Timestamp}.{body}; there are also {sig.t}, {url} and {method}.';

/** A template of what is signed, which must cover the body and leave no doubt where its parts end. */
export function parsePayload(template: string): ParsedPayload {
  const parts: Part[] = [];
  for (const [, placeholder, text] of template.matchAll(/\{([^{}]*)\}|([^{}]+|[{}])/g)) {
    const part = placeholder === undefined ? toText(text ?? '') : toPart(placeholder);
    if (part === undefined) {
      return fault(`does not know ${placeholder === undefined ? text : `{${placeholder}}`}`);
    }
    parts.push(part);
  }
  if (!parts.some(({ kind }) => kind === 'body')) {
    return fault('has no {body}, so anybody could change it');
  }
  const open = parts.findIndex(
    (part, index) => isForeign(part) && (parts[index + 1]?.kind ?? 'text') !== 'text',
  );
  if (open !== -1) return fault('needs a separator after each {header:…} and {sig.…}');
  return { ok: true, parts };
}

/** What one placeholder means, such as `header:X-Timestamp`. */
export function toPart(placeholder: string): Part | undefined {
  if (placeholder === 'body' || placeholder === 'url' || placeholder === 'method') {
    return { kind: placeholder };
  }
  const header = /^header:([A-Za-z0-9_-]{1,100})$/.exec(placeholder)?.[1];
  if (header !== undefined) return { kind: 'header', name: header.toLowerCase() };
  const entry = /^sig\.([A-Za-z0-9_-]{1,20})$/.exec(placeholder)?.[1];
  return entry === undefined ? undefined : { kind: 'entry', name: entry };
}

export type FilledPayload =
  | { readonly ok: true; readonly parts: readonly (string | Buffer)[] }
  | {
      readonly ok: false;
      readonly reason: HeaderFault | 'signature_malformed' | 'value_ambiguous';
    };

export function fillPayload(
  parts: readonly Part[],
  request: HookRequest,
  entries: readonly string[],
): FilledPayload {
  const filled: (string | Buffer)[] = [];
  for (const [index, part] of parts.entries()) {
    const value = valueOf(part, request, entries);
    if (!value.ok) return value;
    // Whoever may choose where one part ends could pass a piece of the next one for it.
    const next = parts[index + 1];
    const isOpen = isForeign(part) && next?.kind === 'text' && value.bytes.includes(next.text);
    if (isOpen) return { ok: false, reason: 'value_ambiguous' };
    filled.push(value.bytes);
  }
  return { ok: true, parts: filled };
}

type Value =
  | { readonly ok: true; readonly bytes: string | Buffer }
  | { readonly ok: false; readonly reason: HeaderFault | 'signature_malformed' };

export function valueOf(part: Part, request: HookRequest, entries: readonly string[]): Value {
  if (part.kind === 'text') return { ok: true, bytes: part.text };
  if (part.kind === 'body') return { ok: true, bytes: request.rawBody };
  if (part.kind === 'url') return { ok: true, bytes: request.url };
  if (part.kind === 'method') return { ok: true, bytes: request.method };
  if (part.kind === 'header') {
    const taken = takeHeader(request, part.name);
    // A header's characters are its bytes.
    return taken.ok ? { ok: true, bytes: Buffer.from(taken.value, 'latin1') } : taken;
  }
  const [first, second] = entries.filter((entry) => entry.startsWith(`${part.name}=`));
  if (first === undefined || second !== undefined) {
    return { ok: false, reason: 'signature_malformed' };
  }
  return { ok: true, bytes: Buffer.from(first.slice(part.name.length + 1), 'latin1') };
}

/** Whether the sender says it. */
function isForeign({ kind }: Part): boolean {
  return kind === 'header' || kind === 'entry';
}

function toText(text: string): Part | undefined {
  return text === '{' || text === '}' ? undefined : { kind: 'text', text };
}

function fault(message: string): ParsedPayload {
  return { ok: false, message, hint: FORM };
}
