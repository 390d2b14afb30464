import type { IncomingMessage, ServerResponse } from 'node:http';
import { catalogue, DuctileError, toDuctileError, type ErrorCode } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { parseJson } from '../base/parse-json.ts';
import { unquote } from '../base/text.ts';
import { parseTraceparent } from '../base/trace.ts';
import { authorizeUrl, type Admission } from '../access/authorize.operations.ts';
import type { Context } from '../operation/context.ts';
import type { JsonOutput, Operation } from '../operation/define.ts';
import { invoke } from '../operation/invoke.ts';
import { answerOnce, type Answer } from '../operation/idempotent.ts';
import { fromRequest, type RequestParts } from '../operation/request-codec.ts';
import {
  fromCloudEvent,
  fromCloudEvents,
  isCloudEventBatch,
  readCloudEvent,
  wantsBinaryCloudEvents,
} from '../signal/cloudevent.ts';
import { readBody, type Body } from './body.ts';
import { Exchange, GUARDED } from './exchange.ts';
import type { Gate } from './authenticate.ts';
import type { HookServer } from './webhook-listener.ts';
import { inspectRequest } from './check-request.ts';
import { MCP_PATH, serveMcp, type McpServer } from './mcp-endpoint.ts';
import { prepare, sendPrepared, type Prepared } from './cached-response.ts';
import { decodeSegments, readQuery } from './query.ts';
import { makeRouter, paramsOf, splitPath, type Place, type Route, type Router } from './router.ts';
import type { EventStreams } from './event-stream.ts';
import type { UiServer } from './dashboard.ts';

export interface ApiOptions {
  readonly base: Pick<Context, 'engine' | 'submittedBy'>;
  readonly operations: readonly Operation[];
  readonly gate: Gate;
  readonly streams: EventStreams;
  /** Answers what is delivered to a webhook, and says so; undefined where nothing is. */
  readonly hooks?: HookServer | undefined;
  /** Answers a browser that wants the dashboard, and says so. */
  readonly ui?: UiServer | undefined;
  /** Answers agents, at a place of its own. */
  readonly mcp?: McpServer | undefined;
  readonly log: Log;
}

export type Handler = (request: IncomingMessage, response: ServerResponse) => void;

/** Every operation at its place; whatever goes wrong is an error of the catalogue. */
export function makeApi(options: ApiOptions): Handler {
  const router = makeRouter(options.operations);
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

async function serve(options: ApiOptions, router: Router, exchange: Exchange): Promise<void> {
  const { gate } = options;
  inspectRequest(exchange);
  // Whoever delivers proves it in another way, and comes under whatever name a tunnel has.
  if (await options.hooks?.(exchange)) return;
  if (gate.receive(exchange)) return;
  // Its files hold nothing that is anybody's; what they show they ask for with a token.
  if (await options.ui?.(exchange)) return;
  const { mcp, base } = options;
  if (mcp !== undefined && exchange.path === MCP_PATH) {
    await serveMcp({ mcp, gate, base }, exchange);
    return;
  }
  const segments = segmentsOf(exchange);
  const places = router.find(segments);
  const { method = '' } = exchange.request;
  const found = findRoute(places, method === 'HEAD' ? 'GET' : method);
  const known = found?.route ?? places[0]?.routes.values().next().value;
  // The methods of a path aren't secret, and clients ask for them before they have a token.
  if (method === 'OPTIONS' && places.length > 0) {
    refuseMethod(exchange, places, method);
    return;
  }
  const admission = await gate.admit(exchange, known);
  try {
    if (found === undefined) refuseMethod(exchange, places, method);
    else await serveRoute(options, exchange, { ...found, segments, admission });
  } finally {
    admission.leave();
  }
}

/** A batch goes where many are taken, whichever of the two places it was sent to. */
function segmentsOf({ path, request }: Exchange): readonly string[] {
  const segments = splitPath(path);
  const isOne = segments.length === 1 && segments[0] === 'signals';
  return isOne && isCloudEventBatch(request.headers) ? ['signals', 'batch'] : segments;
}

interface Found {
  readonly route: Route;
  readonly place: Place;
  readonly segments: readonly string[];
  readonly admission: Admission;
}

async function serveRoute(
  { gate, base, streams }: ApiOptions,
  exchange: Exchange,
  { route, place, segments, admission }: Found,
): Promise<void> {
  const { engine, principal } = admission;
  const context: Context = {
    ...base,
    engine,
    principal,
    ...traceOf(exchange),
    hungUp: () => exchange.hungUp(),
  };
  const { method } = exchange.request;
  const params = decodeSegments(paramsOf(place, segments));
  const isRead = method === 'GET' || method === 'HEAD';
  const query = readQuery(exchange.url, route);
  if (!isRead) authorizeRequest(context, route, { params, query });
  const body = isRead ? undefined : await readBody(exchange.request, 'any');
  try {
    if (await sendCached(exchange, context, { route, params })) return;
    const parts = { params, query, body: contentOf(exchange, route, body) };
    const input = fromRequest(route.fields, route.surface, parts);
    if (route.surface.isStream === true && !wantsJson(exchange)) {
      const admit = () => admitAgain(gate, exchange, route);
      const { again } = admission;
      await streams.open(exchange, context, { operation: route.operation, input, admit, again });
    } else await answer(exchange, context, { route, input, body });
  } catch (thrown) {
    throw inPath(toDuctileError(thrown), route, params);
  }
}

/** Responses by what they follow from, so that a reload or another tenant has its own. */
const responses = new WeakMap<object, Map<string, Promise<Prepared>>>();

/** Sends a response that was prepared before, if the operation has one for this caller. */
async function sendCached(
  exchange: Exchange,
  context: Context,
  { route, params }: Pick<Found, 'route'> & { readonly params: Readonly<Record<string, string>> },
): Promise<boolean> {
  const { operation, surface } = route;
  const owner = surface.cachedBy?.(context, params);
  if (owner === undefined || operation.scope !== undefined || exchange.url !== exchange.path) {
    return false;
  }
  const known = responses.get(owner) ?? new Map<string, Promise<Prepared>>();
  responses.set(owner, known);
  const made =
    known.get(operation.name) ??
    invoke(operation, context, params).then((output) =>
      prepare(Buffer.from(`${JSON.stringify(output)}\n`), 'application/json'),
    );
  known.set(operation.name, made);
  made.catch(() => known.delete(operation.name));
  const cacheControl = 'private, no-cache';
  const vary = 'accept-encoding, authorization';
  sendPrepared(exchange, await made, { cacheControl, vary, always: GUARDED });
  return true;
}

/** Before the body is read: a caller without the right to do this must not make us parse it. */
function authorizeRequest(
  context: Context,
  { operation, surface, fields }: Route,
  { params, query }: Omit<RequestParts, 'body'>,
): void {
  const isInUrl = typeof operation.scope === 'function' && operation.scopeIn === 'url';
  const inUrl = isInUrl ? fromRequest(fields, surface, { params, query, body: undefined }) : params;
  authorizeUrl(operation, context, inUrl);
}

/** Who the caller is by now; the visit that it came with goes on. */
async function admitAgain(gate: Gate, exchange: Exchange, route: Route) {
  const again = await gate.admit(exchange, route);
  again.leave();
  return again.principal;
}

/** What was sent, in the words of the operation. */
function contentOf({ request }: Exchange, { surface }: Route, body: Body | undefined): unknown {
  if (surface.takesCloudEvents === undefined) return body?.value;
  if (isCloudEventBatch(request.headers)) return { signals: fromCloudEvents(body?.value) };
  if (surface.takesCloudEvents === 'many') return body?.value;
  const event = readCloudEvent(request.headers, body?.value);
  return event === undefined ? body?.value : fromCloudEvent(event);
}

interface Asked {
  readonly route: Route;
  readonly input: JsonOutput;
  readonly body: Body | undefined;
}

async function answer(
  exchange: Exchange,
  context: Context,
  { route, input, body }: Asked,
): Promise<void> {
  const { textForm } = route.surface;
  const form = formOf(exchange, route);
  const isText = textForm !== undefined && !wantsJson(exchange);
  if (input['fields'] !== undefined && (isText || form !== undefined)) {
    throw new DuctileError('INPUT_INVALID', 'fields picks from a JSON result only', {
      place: 'fields',
      hint: 'Ask for application/json, or leave fields out.',
    });
  }
  if (isText) {
    const output = await invoke(route.operation, context, input);
    exchange.answer(200, textForm.write(output), textForm.type);
    return;
  }
  const run = async (as: Context, toOther = same): Promise<Answer> => {
    const output = toOther(await invoke(route.operation, as, input));
    const isPlan = output['dry_run'] === true;
    const status = isPlan ? 200 : (route.surface.status?.(output) ?? 200);
    return { status, text: `${JSON.stringify(output)}\n` };
  };
  const key = readIdempotencyKey(exchange);
  if (body === undefined || key === undefined) {
    const { status, text } = await run(context, form?.toOther);
    addLocation(exchange, route, { status, text });
    exchange.answer(status, text, form?.type);
    return;
  }
  const { url, path } = exchange;
  // Of a CloudEvent, headers may have been part of what was asked.
  const event = route.surface.takesCloudEvents !== undefined ? JSON.stringify(input) : '';
  // Not even a digest is kept of a secret: one that is short could be found by trying.
  const bytes = route.operation.secrets === undefined ? body.bytes : Buffer.alloc(0);
  const asked = Buffer.concat([Buffer.from(`${url.slice(path.length)}\n${event}`), bytes]);
  const keyed = {
    key,
    route: `${exchange.request.method ?? ''} ${path}`,
    asked,
    isSecret: route.surface.isSecret === true,
    isDryRun: input['dry_run'] === true,
  };
  const { status, text, repeated } = await answerOnce(context, keyed, run);
  if (repeated) exchange.extra.push('idempotency-replayed', 'true');
  addLocation(exchange, route, { status, text });
  exchange.answer(status, text);
}

/** Clients send the key bare or, as its specification says, in quotes; both mean the same. */
function readIdempotencyKey({ request }: Exchange): string | undefined {
  const key = request.headers['idempotency-key'];
  return typeof key === 'string' ? unquote(key) : undefined;
}

/** From the text, because a repeated response is known by nothing else. */
function addLocation({ extra }: Exchange, { surface }: Route, { status, text }: Answer): void {
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

/** The form of the answer that the client accepts, when it is not ours. */
function formOf({ request, extra }: Exchange, { surface }: Route) {
  const { binaryForm } = surface;
  if (binaryForm !== undefined && wantsBinaryCloudEvents(request.headers)) {
    const toOther = (output: JsonOutput): JsonOutput => {
      const { headers, data } = binaryForm(output);
      extra.push(...headers.flat());
      return data as JsonOutput;
    };
    return { type: 'application/json', toOther };
  }
  const [accepted = ''] = (request.headers.accept ?? '').split(/[;,]/);
  const type = accepted.trim().toLowerCase();
  const toOther = new Map(Object.entries(surface.otherForms ?? {})).get(type);
  return toOther === undefined ? undefined : { type, toOther };
}

const same = (output: JsonOutput): JsonOutput => output;

function findRoute(
  places: readonly Place[],
  method: string,
): { route: Route; place: Place } | undefined {
  for (const place of places) {
    const route = place.routes.get(method);
    if (route !== undefined) return { route, place };
  }
  return undefined;
}

function refuseMethod(exchange: Exchange, places: readonly Place[], method: string): void {
  if (places.length === 0) {
    throw new DuctileError('ENDPOINT_NOT_FOUND', `there is no ${method} ${exchange.path}`);
  }
  const methods = new Set(places.flatMap(({ routes }) => [...routes.keys()]));
  if (methods.has('GET')) methods.add('HEAD');
  exchange.extra.push('allow', [...methods, 'OPTIONS'].join(', '));
  if (method !== 'OPTIONS') {
    throw new DuctileError('METHOD_NOT_ALLOWED', `${method} is not possible here`);
  }
  exchange.answerEmpty(204);
}

/**
 * What stands in the path names something; what cannot be a name names nothing. What several have the
 * beginning of in common is a name, and the error says of which.
 */
function inPath(
  error: DuctileError,
  { operation }: Route,
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
