import { limits } from '../base/limits.ts';
import { typeIn } from './media.ts';

export type ReadForm =
  | { readonly ok: true; readonly fields: ReadonlyMap<string, readonly string[]> }
  | { readonly ok: false; readonly fault: string };

export const FORM_TYPE = 'application/x-www-form-urlencoded';

export function isForm(contentType: string): boolean {
  return typeIn(contentType) === FORM_TYPE;
}

/** The fields of a form, each with all of its values in order. */
export function readForm(bytes: Buffer): ReadForm {
  const fields = new Map<string, string[]>();
  let count = 0;
  for (const pair of bytes.toString('latin1').split('&')) {
    if (pair === '') continue;
    count += 1;
    if (count > limits.jsonKeysMax) return fault(`has more than ${limits.jsonKeysMax} fields`);
    const equals = pair.indexOf('=');
    const name = decode(equals === -1 ? pair : pair.slice(0, equals));
    const value = decode(equals === -1 ? '' : pair.slice(equals + 1));
    if (name === undefined || value === undefined) return fault('is not a form in UTF-8');
    const values = fields.get(name);
    if (values === undefined) fields.set(name, [value]);
    else values.push(value);
  }
  return { ok: true, fields };
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function decode(written: string): string | undefined {
  if (/%(?![0-9A-Fa-f]{2})/.test(written)) return undefined;
  const raw = written
    .replaceAll('+', ' ')
    .replaceAll(/%(..)/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  try {
    return decoder.decode(Buffer.from(raw, 'latin1'));
  } catch {
    return undefined;
  }
}

function fault(text: string): ReadForm {
  return { ok: false, fault: text };
}
