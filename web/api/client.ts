import { parseJson } from '../../src/base/parse-json.ts';
import type { Input, Name, Output } from './types.ts';
import { places } from './http-routes.ts';
import { toRequest } from './request.ts';
import { readToken, signOut } from './token.ts';

/** What went wrong, in the words of the server. */
export class Refusal extends Error {
  readonly code: string;
  readonly status: number;
  readonly hint: string | undefined;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(status: number, problem: Readonly<Record<string, unknown>>) {
    super(typeof problem['error'] === 'string' ? problem['error'] : `the server said ${status}`);
    this.code = typeof problem['code'] === 'string' ? problem['code'] : 'UNKNOWN';
    this.status = status;
    this.hint = typeof problem['hint'] === 'string' ? problem['hint'] : undefined;
    this.details = problem;
  }
}

export interface CallOptions {
  readonly signal?: AbortSignal;
  /** The same for every try of one wish, so that it is fulfilled once. */
  readonly key?: string;
}

/** Asks an operation of the server. */
export async function call<N extends Name>(
  name: N,
  input: Input<N>,
  options: CallOptions = {},
): Promise<Output<N>> {
  return (await ask(name, input, options)) as Output<N>;
}

/** What a change would do; nothing is done. */
export async function plan<N extends Name>(name: N, input: Input<N>): Promise<readonly string[]> {
  const answer = await ask(name, { ...(input as Fields), dry_run: true }, {});
  const told = (answer as { plan?: unknown }).plan;
  return Array.isArray(told) ? told.map(String) : [];
}

export function isDestroying(name: Name): boolean {
  return places[name]?.isDestroying === true;
}

type Fields = Readonly<Record<string, unknown>>;

async function ask(name: string, input: Fields, { signal, key }: CallOptions): Promise<unknown> {
  const place = places[name];
  if (place === undefined) throw new Refusal(404, { error: `${name} cannot be asked here` });
  const { method, url, body } = toRequest(place, input);
  const response = await send(url, {
    method,
    ...(body === undefined ? {} : { body }),
    ...(signal === undefined ? {} : { signal }),
    headers: {
      accept: 'application/json',
      authorization: `Bearer ${readToken() ?? ''}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(key === undefined ? {} : { 'idempotency-key': key }),
    },
  });
  const answer = await response
    .text()
    .then(parseJson)
    .catch(() => undefined);
  if (response.ok) return answer;
  if (response.status === 401) signOut('expired');
  throw new Refusal(response.status, isFields(answer) ? answer : {});
}

async function send(url: string, init: RequestInit): Promise<Response> {
  try {
    // What a token may see is never left in a cache.
    return await fetch(url, { ...init, cache: 'no-store', credentials: 'omit' });
  } catch (thrown) {
    if (init.signal?.aborted === true) throw thrown;
    throw new Refusal(0, { error: 'the server does not answer', hint: 'Is it running?' });
  }
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
