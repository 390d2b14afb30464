import type { IncomingMessage, ServerResponse } from 'node:http';
import { catalogue } from '../base/error-catalogue.ts';
import { DuctileError, toDuctileError, type ErrorCode } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { parseJson } from '../base/parse-json.ts';
import { unquote } from '../base/text.ts';
import { parseTraceparent } from '../base/trace.ts';
import { authorizeUrl, type Admission } from '../operation/authorize.ts';
import type { Context } from '../operation/context.ts';
import type { JsonOutput, Operation } from '../operation/define.ts';
import { invoke } from '../operation/invoke.ts';
import { runOnce, type IdempotentResponse } from '../operation/idempotency.ts';
import { fromRequest, type RequestParts } from '../operation/request.ts';
import {
  CLOUDEVENT_TYPE,
  fromCloudEvent,
  fromCloudEvents,
  isCloudEventBatch,
  readCloudEvent,
  toBinaryCloudEvent,
  toCloudEvent,
  wantsBinaryCloudEvents,
  type ShownSignal,
} from '../signal/cloudevent.ts';
import { readJsonBody, type RequestBody } from './body.ts';
import { checkRequest, Exchange, GUARDED } from './exchange.ts';
import type { Authenticator } from './authenticate.ts';
import type { WebhookHandler } from './webhook-listener.ts';
import { MCP_PATH, serveMcp, type McpHandler } from './mcp-endpoint.ts';
import {
  createCachedResponse,
  sendCachedResponse,
  type CachedResponse,
} from './cached-response.ts';
import {
  decodeSegments,
  readQuery,
  createRouter,
  readParams,
  splitPath,
  type RoutePattern,
  type ApiRoute,
  type ApiRouter,
} from './router.ts';
import type { EventStreams } from './event-stream.ts';
import type { Sites } from './sites.ts';

export interface ApiOptions {
  readonly base: Pick<Context, 'engine' | 'submittedBy'>;
  readonly operations: readonly Operation[];
  readonly authenticator: Authenticator;
  readonly streams: EventStreams;
  /** Handles webhook deliveries, and returns whether the request was one. */
  readonly webhooks?: WebhookHandler | undefined;
  /** Handles requests for the dashboard or the documentation; returns whether the request was one. */
  readonly sites?: Sites | undefined;
  /** Handles the messages of AI agents at `/mcp`. */
  readonly mcp?: McpHandler | undefined;
  readonly log: Log;
}

export type ApiHandler = (request: IncomingMessage, response: ServerResponse) => void;

/** Serves every operation at its path; each failure becomes an error of the catalogue. */
export function createApiHandler(options: ApiOptions): ApiHandler {
  const router = createRouter(options.operations);
  const { log } = options;
  return (request, response) => {
    const exchange = new Exchange(request, response);
    const began = performance.now();
    serve(options, router, exchange)
      .catch((thrown: unknown) => refuse(exchange, toDuctileError(thrown), log))
      .finally(() => {
        log.debug('request', {
          method: request.method,
          path: exchange.path,
          status: response.statusCode,
          ms: Math.round(performance.now() - began),
          request_id: exchange.requestId,
        });
      });
  };
}

async function serve(options: ApiOptions, router: ApiRouter, exchange: Exchange): Promise<void> {
  const { authenticator } = options;
  checkRequest(exchange);
  const [, area] = exchange.path.split('/', 2);
  // Deliveries prove themselves by a signature or token, and arrive under any host name that a
  // tunnel has.
  if (area === 'hooks' && (await options.webhooks?.(exchange))) return;
  if (authenticator.answerPreflight(exchange)) return;
  // The documentation is as open as the list of endpoints.
  const index = findRoute(router.find(splitPath('/')), 'GET')?.route;
  const admit = () => authenticator.authenticate(exchange, index);
  if (await options.sites?.(exchange, admit)) return;
  const { mcp, base } = options;
  if (mcp !== undefined && exchange.path === MCP_PATH) {
    await serveMcp({ mcp, authenticator, base }, exchange);
    return;
  }
  const segments = segmentsOf(exchange);
  const patterns = router.find(segments);
  const { method = '' } = exchange.request;
  const found = findRoute(patterns, method === 'HEAD' ? 'GET' : method);
  const known = found?.route ?? patterns[0]?.routes.values().next().value;
  // The methods of a path aren't secret, and clients ask for them before they have a token.
  if (method === 'OPTIONS' && patterns.length > 0) {
    refuseMethod(exchange, patterns, method);
    return;
  }
  const admission = await authenticator.authenticate(exchange, known);
  try {
    if (found === undefined) refuseMethod(exchange, patterns, method);
    else await serveRoute(options, exchange, { ...found, segments, admission });
  } finally {
    admission.leave();
  }
}

/**
 * Sends a batch to the batch endpoint, even if the client sent it to the endpoint for one event.
 */
function segmentsOf({ path, request }: Exchange): readonly string[] {
  const segments = splitPath(path);
  const isOne = segments.length === 1 && segments[0] === 'signals';
  return isOne && isCloudEventBatch(request.headers) ? ['signals', 'batch'] : segments;
}

interface RouteMatch {
  readonly route: ApiRoute;
  readonly pattern: RoutePattern;
  readonly segments: readonly string[];
  readonly admission: Admission;
}

async function serveRoute(
  { authenticator, base, streams }: ApiOptions,
  exchange: Exchange,
  { route, pattern, segments, admission }: RouteMatch,
): Promise<void> {
  const { engine, principal } = admission;
  const context: Context = {
    ...base,
    engine,
    principal,
    ...traceOf(exchange),
    disconnected: () => exchange.disconnected(),
  };
  const { method } = exchange.request;
  const params = decodeSegments(readParams(pattern, segments));
  const isRead = method === 'GET' || method === 'HEAD';
  const query = readQuery(exchange.url, route);
  if (!isRead) authorizeRequest(context, route, { params, query });
  const body = isRead ? undefined : await readJsonBody(exchange.request, 'any');
  try {
    if (await sendCached(exchange, context, { route, params })) return;
    const parts = { params, query, body: contentOf(exchange, route, body) };
    const input = fromRequest(route.fields, route.surface, parts);
    if (route.surface.isStream === true && !wantsJson(exchange)) {
      const admit = () => admitAgain(authenticator, exchange, route);
      const { again } = admission;
      await streams.open(exchange, context, { operation: route.operation, input, admit, again });
    } else await sendResult(exchange, context, { route, input, body });
  } catch (thrown) {
    throw inPath(toDuctileError(thrown), route, params);
  }
}

/** Responses by the object that they depend on, so that a reload or another tenant gets its own. */
const responses = new WeakMap<object, Map<string, Promise<CachedResponse>>>();

/** Sends a response that was prepared before, if the operation has one for this caller. */
async function sendCached(
  exchange: Exchange,
  context: Context,
  {
    route,
    params,
  }: Pick<RouteMatch, 'route'> & { readonly params: Readonly<Record<string, string>> },
): Promise<boolean> {
  const { operation, surface } = route;
  const owner = surface.cachedBy?.(context, params);
  if (owner === undefined || operation.scope !== undefined || exchange.url !== exchange.path) {
    return false;
  }
  const known = responses.get(owner) ?? new Map<string, Promise<CachedResponse>>();
  responses.set(owner, known);
  const made =
    known.get(operation.name) ??
    invoke(operation, context, params).then((output) =>
      createCachedResponse(Buffer.from(`${JSON.stringify(output)}\n`), 'application/json'),
    );
  known.set(operation.name, made);
  made.catch(() => known.delete(operation.name));
  const cacheControl = 'private, no-cache';
  const vary = 'accept-encoding, authorization';
  sendCachedResponse(exchange, await made, { cacheControl, vary, always: GUARDED });
  return true;
}

/** Runs before the body is read: a caller without the right must not make the service parse it. */
function authorizeRequest(
  context: Context,
  { operation, surface, fields }: ApiRoute,
  { params, query }: Omit<RequestParts, 'body'>,
): void {
  const isInUrl = typeof operation.scope === 'function' && operation.scopeIn === 'url';
  const inUrl = isInUrl ? fromRequest(fields, surface, { params, query, body: undefined }) : params;
  authorizeUrl(operation, context, inUrl);
}

/** Authenticates the caller again; the tenant's ledger stays open for the stream. */
async function admitAgain(authenticator: Authenticator, exchange: Exchange, route: ApiRoute) {
  const again = await authenticator.authenticate(exchange, route);
  again.leave();
  return again.principal;
}

/** Converts the body to the operation's input. */
function contentOf(
  { request }: Exchange,
  { surface }: ApiRoute,
  body: RequestBody | undefined,
): unknown {
  if (surface.acceptsCloudEvents === undefined) return body?.value;
  if (isCloudEventBatch(request.headers)) return { signals: fromCloudEvents(body?.value) };
  if (surface.acceptsCloudEvents === 'many') return body?.value;
  const event = readCloudEvent(request.headers, body?.value);
  return event === undefined ? body?.value : fromCloudEvent(event);
}

interface OperationRequest {
  readonly route: ApiRoute;
  readonly input: JsonOutput;
  readonly body: RequestBody | undefined;
}

async function sendResult(
  exchange: Exchange,
  context: Context,
  { route, input, body }: OperationRequest,
): Promise<void> {
  const { textForm } = route.surface;
  const form = formOf(exchange, route);
  const isText = textForm !== undefined && !wantsJson(exchange);
  if (input['fields'] !== undefined && (isText || form !== undefined)) {
    throw new DuctileError('INPUT_INVALID', 'fields can only be used with a JSON result', {
      place: 'fields',
      hint: 'Request application/json, or remove fields.',
    });
  }
  if (isText) {
    const output = await invoke(route.operation, context, input);
    exchange.respond(200, textForm.write(output), textForm.type);
    return;
  }
  const run = async (as: Context, toOther = same): Promise<IdempotentResponse> => {
    const output = toOther(await invoke(route.operation, as, input));
    const isPlan = output['dry_run'] === true;
    const status = isPlan ? 200 : (route.surface.status?.(output) ?? 200);
    return { status, text: `${JSON.stringify(output)}\n` };
  };
  const key = readIdempotencyKey(exchange);
  if (body === undefined || key === undefined) {
    const { status, text } = await run(context, form?.toOther);
    addLocation(exchange, route, { status, text });
    exchange.respond(status, text, form?.type);
    return;
  }
  const { url, path } = exchange;
  // With CloudEvents, headers can be part of the input.
  const event = route.surface.acceptsCloudEvents !== undefined ? JSON.stringify(input) : '';
  // Store no digest of a secret: a short secret could be found by trying.
  const bytes = route.operation.secrets === undefined ? body.bytes : Buffer.alloc(0);
  const content = Buffer.concat([Buffer.from(`${url.slice(path.length)}\n${event}`), bytes]);
  const keyed = {
    key,
    route: `${exchange.request.method ?? ''} ${path}`,
    content,
    isSecret: route.surface.isSecret === true,
    isDryRun: input['dry_run'] === true,
  };
  const { status, text, repeated } = await runOnce(context, keyed, run);
  if (repeated) exchange.extra.push('idempotency-replayed', 'true');
  addLocation(exchange, route, { status, text });
  exchange.respond(status, text);
}

/** Clients send the key bare or, as its specification says, in quotes. */
function readIdempotencyKey({ request }: Exchange): string | undefined {
  const key = request.headers['idempotency-key'];
  return typeof key === 'string' ? unquote(key) : undefined;
}

/** Reads the location from the text, because a replayed response is stored as text only. */
function addLocation(
  { extra }: Exchange,
  { surface }: ApiRoute,
  { status, text }: IdempotentResponse,
): void {
  const { location } = surface;
  if (location === undefined || (status !== 201 && status !== 202)) return;
  const output = parseJson(text) as JsonOutput;
  const fields = [...location.matchAll(/:(\w+)/g)].map(([, field = '']) => output[field]);
  if (!fields.every((value) => typeof value === 'string')) return;
  const path = location.replaceAll(/:(\w+)/g, (_, field: string) =>
    encodeURIComponent(String(output[field])),
  );
  extra.push('location', path);
}

/** Finds the form of a CloudEvent that the client accepts; undefined means plain JSON. */
function formOf({ request, extra }: Exchange, { surface }: ApiRoute) {
  if (surface.returnsCloudEvent !== true) return undefined;
  if (wantsBinaryCloudEvents(request.headers)) {
    const toOther = (output: JsonOutput): JsonOutput => {
      const { headers, data } = toBinaryCloudEvent(output as unknown as ShownSignal);
      extra.push(...headers.flat());
      return data as JsonOutput;
    };
    return { type: 'application/json', toOther };
  }
  const [accepted = ''] = (request.headers.accept ?? '').split(/[;,]/);
  const type = accepted.trim().toLowerCase();
  if (type !== CLOUDEVENT_TYPE) return undefined;
  return { type, toOther: (output: JsonOutput) => toCloudEvent(output as unknown as ShownSignal) };
}

const same = (output: JsonOutput): JsonOutput => output;

function findRoute(
  patterns: readonly RoutePattern[],
  method: string,
): { route: ApiRoute; pattern: RoutePattern } | undefined {
  for (const pattern of patterns) {
    const route = pattern.routes.get(method);
    if (route !== undefined) return { route, pattern };
  }
  return undefined;
}

function refuseMethod(exchange: Exchange, patterns: readonly RoutePattern[], method: string): void {
  if (patterns.length === 0) {
    throw new DuctileError('ENDPOINT_NOT_FOUND', `there is no ${method} ${exchange.path}`);
  }
  const methods = new Set(patterns.flatMap(({ routes }) => [...routes.keys()]));
  if (methods.has('GET')) methods.add('HEAD');
  exchange.extra.push('allow', [...methods, 'OPTIONS'].join(', '));
  if (method !== 'OPTIONS') {
    throw new DuctileError('METHOD_NOT_ALLOWED', `${method} is not allowed here`);
  }
  exchange.respondEmpty(204);
}

/**
 * Turns invalid input from the path into a not-found error. An ambiguous short id keeps its own
 * error, which lists the candidates.
 */
function inPath(
  error: DuctileError,
  { operation }: ApiRoute,
  params: Readonly<Record<string, string>>,
): DuctileError {
  const { place, details } = error;
  if (
    error.code !== 'INPUT_INVALID' ||
    details !== undefined ||
    place === undefined ||
    !Object.hasOwn(params, place)
  ) {
    return error;
  }
  const own = `${place.toUpperCase()}_NOT_FOUND`;
  const code = isCode(own) ? own : operation.errors.find((name) => name.endsWith('_NOT_FOUND'));
  return new DuctileError(code ?? 'ENDPOINT_NOT_FOUND', error.message, { place, cause: error });
}

function isCode(code: string): code is ErrorCode {
  return Object.hasOwn(catalogue, code);
}

function traceOf({ request }: Exchange): Pick<Context, 'traceparent'> {
  const { traceparent } = request.headers;
  return parseTraceparent(traceparent) === undefined ? {} : { traceparent: String(traceparent) };
}

function wantsJson({ request }: Exchange): boolean {
  const { accept = '' } = request.headers;
  return accept.includes('application/json') && !accept.includes('text/event-stream');
}

function refuse(exchange: Exchange, error: DuctileError, log: Log): void {
  if (error.code === 'INTERNAL') {
    const { path, requestId } = exchange;
    log.error('a request failed', { path, request_id: requestId, error: error.cause ?? error });
  }
  exchange.refuse(error);
}
