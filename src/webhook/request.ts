import { limits } from '../base/limits.ts';

/** One delivery as it came, before anything of it is believed. */
export interface HookRequest {
  readonly method: string;
  /** As whoever sent it saw it, with scheme and host. */
  readonly url: string;
  /** One pair for each line, in order, names in lower case: what came twice is there twice. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly rawBody: Buffer;
}

/** A delivery as a listener has read it. */
export interface Incoming {
  readonly request: HookRequest;
  /** Where it came from, as far as proxies are trusted. */
  readonly source: string;
  /** There was more than any webhook takes; the rest was not read. */
  readonly isOversize: boolean;
  /** How large its body is as far as is known, where not all of it was read. */
  readonly bodyBytes?: number;
  /** Says when whoever sent it is gone. */
  readonly hungUp?: () => AbortSignal;
  /** How far from its first cause it is, where a running job has it delivered. */
  readonly hops?: number;
  /** The directive that delivers it as a test, without the listener. */
  readonly test?: DeliveryTest;
}

/** A test delivery: who requested it, and by which directive. */
export interface DeliveryTest {
  readonly actor: string;
  readonly directiveId: string;
}

export type HeaderFault = 'header_missing' | 'header_repeated' | 'header_too_long';

export type TakenHeader =
  | { readonly ok: true; readonly value: string }
  | { readonly ok: false; readonly reason: HeaderFault };

/**
 * A header on which something depends. It must be there once: of two, other programs on the way may
 * have looked at the other one.
 */
export function takeHeader(request: HookRequest, name: string): TakenHeader {
  const [first, second] = valuesOf(request, name);
  if (first === undefined || first === '') return { ok: false, reason: 'header_missing' };
  if (second !== undefined) return { ok: false, reason: 'header_repeated' };
  if (first.length > limits.hookHeaderCharsMax) return { ok: false, reason: 'header_too_long' };
  return { ok: true, value: first };
}

export function hasHeader(request: HookRequest, name: string): boolean {
  return request.headers.some(([key]) => key === name);
}

function valuesOf({ headers }: HookRequest, name: string): string[] {
  return headers.filter(([key]) => key === name).map(([, value]) => value);
}
