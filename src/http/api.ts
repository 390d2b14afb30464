import { Hono } from 'hono';
import type { Context as Exchange } from 'hono';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { DuctileError, messageOf, toDuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import type { Context } from '../operations/context.ts';
import { isOffered } from '../operations/define.ts';
import type { HttpSurface, Operation } from '../operations/define.ts';
import { invoke } from '../operations/invoke.ts';
import { describeInput, fromRequest } from '../operations/wire.ts';

export interface ApiOptions {
  readonly context: Context;
  readonly operations: readonly Operation[];
  readonly log: Log;
}

/** Every operation at its route; whatever goes wrong is a JSON error of the catalogue. */
export function makeApi({ context, operations, log }: ApiOptions): Hono {
  const api = new Hono();
  for (const operation of operations) {
    if (isOffered(operation.http)) addRoute(api, operation, operation.http, context);
  }
  api.notFound(({ req }) => {
    throw new DuctileError('ENDPOINT_NOT_FOUND', `there is no ${req.method} ${req.path}`);
  });
  api.onError((thrown, exchange) => {
    const error = toDuctileError(thrown);
    if (error.code === 'INTERNAL') {
      log.error('a request failed', { path: exchange.req.path, error: error.cause ?? error });
    }
    // What is left of a body that was too large is not worth reading.
    if (error.code === 'PAYLOAD_TOO_LARGE') exchange.header('connection', 'close');
    return answer(exchange, error.toJSON(), error.kind.status);
  });
  return api;
}

function addRoute(api: Hono, operation: Operation, surface: HttpSurface, context: Context): void {
  const fields = describeInput(operation);
  api.on(surface.method, surface.path, async (exchange) => {
    const { req } = exchange;
    const body = surface.method === 'GET' ? undefined : await readJson(req.raw);
    const parts = { params: req.param(), query: req.queries(), body };
    const output = await invoke(operation, context, fromRequest(fields, surface, parts));
    const isPlan = output['dry_run'] === true;
    return answer(exchange, output, isPlan ? 200 : (surface.status?.(output) ?? 200));
  });
}

function answer(exchange: Exchange, body: object, status: number): Response {
  return exchange.body(`${JSON.stringify(body)}\n`, status as ContentfulStatusCode, {
    'content-type': 'application/json',
  });
}

async function readJson(request: Request): Promise<unknown> {
  const bytes = await readBounded(request);
  if (bytes.length === 0) return undefined;
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    const value: unknown = JSON.parse(text);
    return value;
  } catch (thrown) {
    throw new DuctileError('INPUT_INVALID', `the body is not JSON: ${messageOf(thrown)}`, {
      place: 'body',
    });
  }
}

async function readBounded({ body, headers }: Request): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  const check = (bytes: number): void => {
    if (bytes <= limits.requestBytesMax) return;
    const message = `the body is larger than ${limits.requestBytesMax} bytes`;
    throw new DuctileError('PAYLOAD_TOO_LARGE', message, { place: 'body' });
  };
  check(Number(headers.get('content-length') ?? 0));
  for await (const chunk of body ?? []) {
    size += chunk.length;
    check(size);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
