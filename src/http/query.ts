import { DuctileError } from '../base/errors.ts';
import type { Route } from './router.ts';

/** PostgreSQL takes it in no text. */
const NOTHING = '\0';

/** The query by name. A value that came twice is a list, where a list is wanted, and else refused. */
export function readQuery(
  url: string,
  { fields, surface }: Route,
): Record<string, readonly string[]> {
  const at = url.indexOf('?');
  const query: Record<string, string[]> = Object.create(null) as Record<string, string[]>;
  if (at === -1) return query;
  for (const part of url.slice(at + 1).split('&')) {
    if (part === '') continue;
    const equals = part.indexOf('=');
    const name = decode(equals === -1 ? part : part.slice(0, equals));
    const value = equals === -1 ? '' : decode(part.slice(equals + 1));
    // The gate has seen it; to the operation it is nothing.
    if (name === 'token' && surface.isStream === true) continue;
    if (value.includes(NOTHING)) {
      const message = `${name} has U+0000, which no ledger can keep`;
      throw new DuctileError('INPUT_INVALID', message, { place: name });
    }
    const values = (query[name] ??= []);
    values.push(value);
    if (values.length > 1 && fields.get(name)?.types.includes('array') !== true) {
      throw new DuctileError('INPUT_INVALID', `${name} came twice`, { place: name });
    }
  }
  return query;
}

export function decodeSegments(params: Readonly<Record<string, string>>): Record<string, string> {
  const decoded: Record<string, string> = {};
  for (const [name, value] of Object.entries(params)) {
    const text = value.includes('%') ? decodeSegment(value) : value;
    if (text.includes(NOTHING)) {
      throw new DuctileError('ENDPOINT_NOT_FOUND', `the ${name} in the path can be none`);
    }
    decoded[name] = text;
  }
  return decoded;
}

function decode(text: string): string {
  return decodeSegment(text.replaceAll('+', ' '));
}

function decodeSegment(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new DuctileError('REQUEST_INVALID', 'the URL is not well encoded');
  }
}
