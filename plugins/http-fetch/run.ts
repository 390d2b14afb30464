#!/usr/bin/env node
/** Fetches a URL: on request, for an event, or periodically until it changes. */
import { createHash } from 'node:crypto';
import {
  encodedSize,
  Failure,
  JSON_BYTES_MAX,
  runPlugin,
  type Answer,
  type JsonObject,
  type PluginEvent,
  type Request,
} from '../../sdk/typescript/ductile-plugin.ts';
import { fetchChecked, type FetchResult } from './fetch.ts';
import { readHeaders, readMethod, readSettings, readUrl, type Settings } from './settings.ts';

/** Headers of the response that are returned; cookies aren't. */
const KEPT_HEADERS = [
  'cache-control',
  'content-encoding',
  'content-language',
  'content-type',
  'etag',
  'last-modified',
  'link',
  'location',
  'retry-after',
];
const RETRYABLE = new Set([408, 425, 429]);

await runPlugin({ fetch: fetchNow, handle: fetchNow, poll, health });

async function fetchNow(request: Request): Promise<Answer> {
  const settings = readSettings(request);
  const url = readUrl(request.payload, 'url') ?? settings.url;
  if (url === undefined) throw request.payload.refuse('url', 'or config.url must be set');
  const method = readMethod(request.payload);
  const fetched = await run(url, method, settings, readHeaders(request.payload, 'headers'));
  checkStatus(fetched, settings);
  const size = `${fetched.body.length} bytes`;
  return {
    result: `${fetched.status} from ${url.host}, ${size}`,
    events: [toEvent(url, method, fetched)],
  };
}

/** Requests with the validators of the last response; without them, content is compared. */
async function poll(request: Request): Promise<Answer> {
  const settings = readSettings(request);
  const { url } = settings;
  if (url === undefined) throw request.config.refuse('url', 'must be set for the command poll');
  const before = request.state['url'] === url.href ? request.state : {};
  const fetched = await run(url, 'GET', settings, validatorsOf(before));
  if (fetched.status === 304) return { result: `${url.host}: not changed (304)` };
  checkStatus(fetched, settings);
  const after = snapshotOf(url, fetched);
  const isSame = before['sha256'] === after['sha256'];
  const isSameState = JSON.stringify(before) === JSON.stringify(after);
  return {
    result: `${url.host}: ${isSame ? 'not changed' : 'changed'}`,
    events: isSame ? [] : [toEvent(url, 'GET', fetched)],
    ...(isSameState ? {} : { state_updates: after }),
  };
}

function health(request: Request): Answer {
  const { url } = readSettings(request);
  return { result: url === undefined ? 'configured' : `configured for ${url.host}` };
}

function run(
  url: URL,
  method: 'GET' | 'HEAD',
  settings: Settings,
  ownHeaders: Record<string, string>,
): Promise<FetchResult> {
  return fetchChecked(url, {
    method,
    guard: settings.guard,
    operatorHeaders: settings.headers,
    ownHeaders,
    isAccepted: (status) => isAccepted(status, settings),
    bytesMax: settings.bytesMax,
    redirectsMax: settings.redirectsMax,
    signal: AbortSignal.timeout(settings.timeoutMs),
  });
}

function isAccepted(status: number, { acceptStatus }: Settings): boolean {
  return (status >= 200 && status < 300) || acceptStatus.has(status);
}

function checkStatus({ status, url, headers }: FetchResult, settings: Settings): void {
  if (isAccepted(status, settings)) return;
  const isPassing = status >= 500 || RETRYABLE.has(status);
  const after = isPassing ? secondsUntil(headers['retry-after'] ?? '') : undefined;
  throw new Failure(`${url.host} answered ${status}`, isPassing, after);
}

/** Parses a Retry-After header, which is a number of seconds or a date. */
function secondsUntil(text: string): number | undefined {
  if (/^\d{1,12}$/.test(text)) return Number(text);
  return text.endsWith(' GMT') ? (Date.parse(text) - Date.now()) / 1000 : undefined;
}

function validatorsOf(before: JsonObject): Record<string, string> {
  const { etag, last_modified: lastModified } = before;
  return {
    ...(typeof etag === 'string' ? { 'if-none-match': etag } : {}),
    ...(typeof lastModified === 'string' ? { 'if-modified-since': lastModified } : {}),
  };
}

function snapshotOf(url: URL, { status, headers, body }: FetchResult): JsonObject {
  return {
    url: url.href,
    status,
    etag: headers.etag ?? null,
    last_modified: headers['last-modified'] ?? null,
    sha256: digestOf(body),
  };
}

function toEvent(url: URL, method: 'GET' | 'HEAD', fetched: FetchResult): PluginEvent {
  const { body, headers } = fetched;
  const kept: JsonObject = {};
  for (const name of KEPT_HEADERS) {
    const value = headers[name];
    if (typeof value === 'string') kept[name] = value;
  }
  const payload: JsonObject = {
    url: url.href,
    final_url: fetched.url.href,
    status: fetched.status,
    headers: kept,
    bytes: body.length,
    sha256: digestOf(body),
    ...(method === 'HEAD' ? {} : toBody(fetched)),
  };
  if (encodedSize(payload) > JSON_BYTES_MAX) {
    throw new Failure('the answer is too large for an event; lower config.max_bytes', false);
  }
  return { type: 'http-fetch.fetched', payload };
}

/** Returns text only if it certainly is text: the ledger refuses U+0000, and binary data must not change. */
function toBody({ body, headers }: FetchResult): JsonObject {
  const charset = /;\s*charset="?([\w.:-]+)/i.exec(headers['content-type'] ?? '')?.[1] ?? 'utf-8';
  const text = headers['content-encoding'] === undefined ? decode(body, charset) : undefined;
  if (text !== undefined && !text.includes('\0')) return { body: text };
  return { body_base64: body.toString('base64') };
}

function decode(body: Buffer, charset: string): string | undefined {
  try {
    return new TextDecoder(charset, { fatal: true, ignoreBOM: true }).decode(body);
  } catch {
    return undefined;
  }
}

function digestOf(body: Buffer): string {
  return createHash('sha256').update(body).digest('hex');
}
