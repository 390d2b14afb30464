import { parseJson } from '../../src/base/parse-json.ts';
import type { Input, Name, Output } from './types.ts';
import { httpRoutes } from './http-routes.ts';
import { toRequest } from './request.ts';
import { readToken, signOut } from './token.ts';

/** Error that the service returned, or the lack of a response. */
export class Refusal extends Error {
  readonly code: string;
  readonly status: number;
  readonly hint: string | undefined;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(status: number, problem: Readonly<Record<string, unknown>>) {
    super(
      typeof problem['error'] === 'string'
        ? problem['error']
        : `the service returned status ${status}`,
    );
    this.code = typeof problem['code'] === 'string' ? problem['code'] : 'UNKNOWN';
    this.status = status;
    this.hint = typeof problem['hint'] === 'string' ? problem['hint'] : undefined;
    this.details = problem;
  }
}

export interface CallOptions {
  readonly signal?: AbortSignal;
  /** Idempotency key: the same for every retry of one change. */
  readonly key?: string;
}

/** Calls an operation of the service. */
export async function call<N extends Name>(
  name: N,
  input: Input<N>,
  options: CallOptions = {},
): Promise<Output<N>> {
  return (await sendRequest(name, input, options)) as Output<N>;
}

/** Returns the plan of a change, without making it. */
export async function plan<N extends Name>(name: N, input: Input<N>): Promise<readonly string[]> {
  const result = await sendRequest(name, { ...(input as Fields), dry_run: true }, {});
  const lines = (result as { plan?: unknown }).plan;
  return Array.isArray(lines) ? lines.map(String) : [];
}

export function isDestructive(name: Name): boolean {
  return httpRoutes[name]?.isDestructive === true;
}

type Fields = Readonly<Record<string, unknown>>;

async function sendRequest(
  name: string,
  input: Fields,
  { signal, key }: CallOptions,
): Promise<unknown> {
  const route = httpRoutes[name];
  if (route === undefined) throw new Refusal(404, { error: `the HTTP API has no ${name}` });
  const { method, url, body } = toRequest(route, input);
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
  const result = await response
    .text()
    .then(parseJson)
    .catch(() => undefined);
  if (response.ok) return result;
  if (response.status === 401) signOut('expired');
  throw new Refusal(response.status, isFields(result) ? result : {});
}

async function send(url: string, init: RequestInit): Promise<Response> {
  try {
    // Data that needs a token must not stay in a cache.
    return await fetch(url, { ...init, cache: 'no-store', credentials: 'omit' });
  } catch (thrown) {
    if (init.signal?.aborted === true) throw thrown;
    throw new Refusal(0, {
      error: "can't reach the service",
      hint: 'Check that the service is running.',
    });
  }
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
