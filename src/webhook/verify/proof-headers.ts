import type { Part } from '../payload.ts';
import type { OneScheme, Scheme } from './scheme.ts';

/**
 * The headers by which a delivery is verified: whoever sees them has its proof. Found once for each
 * scheme, because every delivery asks.
 */
export function proofHeadersOf(scheme: Scheme): ReadonlySet<string> {
  let names = found.get(scheme);
  if (names === undefined) {
    names = new Set((scheme.kind === 'any' ? scheme.of : [scheme]).flatMap(headersOf));
    found.set(scheme, names);
  }
  return names;
}

const found = new WeakMap<Scheme, ReadonlySet<string>>();

function headersOf(scheme: OneScheme): string[] {
  if (scheme.kind !== 'signed') return [scheme.header];
  const { payload, timestamp } = scheme;
  const parts: readonly Part[] = timestamp === undefined ? payload : [...payload, timestamp.part];
  return [scheme.header, ...parts.flatMap((part) => (part.kind === 'header' ? [part.name] : []))];
}
