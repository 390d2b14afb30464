import type { IncomingMessage } from 'node:http';
import { catalogue } from '../base/error-catalogue.ts';
import { DuctileError, messageOf } from '../base/errors.ts';
import { isObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import { toVisibleText } from '../base/text.ts';
import { serverNeeded, findTarget } from './call-operation.ts';
import type { CliIo, CommonFlags, CliSession } from './host.ts';
import { readSource } from './input.ts';
import { readResponseText, send, type ServerRequest, type ServerTarget } from './transport.ts';

interface ApiOptions extends CommonFlags {
  readonly method?: string;
  readonly field?: readonly string[];
  readonly header?: readonly string[];
  readonly body?: string;
  readonly include?: boolean;
}

/** Sends a request as it was written; the exit code is that of a returned error. */
export async function callApi(
  session: CliSession,
  path: string,
  options: ApiOptions,
): Promise<number> {
  const { io } = session;
  const exchange = await makeExchange(io, path, options);
  const target = await findTarget(session, options);
  if (target === undefined) throw serverNeeded('api');
  const response = await send(target, exchange);
  if (options.include === true) printHead(io, response);
  if (response.headers['content-type']?.startsWith('text/event-stream') === true) {
    return printStream(io, response);
  }
  return printBody(io, target, response);
}

async function makeExchange(
  io: CliIo,
  given: string,
  { method, field = [], header = [], body }: ApiOptions,
): Promise<ServerRequest> {
  const fields = field.map(splitField);
  const hasContent = body !== undefined || fields.length > 0;
  const verb = (method ?? (hasContent ? 'POST' : 'GET')).toUpperCase();
  const headers = Object.fromEntries(header.map(splitHeader));
  const path = given.startsWith('/') ? given : `/${given}`;
  const isQuery = verb === 'GET' || verb === 'HEAD' || body !== undefined;
  if (!isQuery) {
    const values = fields.map(([key, value]) => [key, toValue(value)] as const);
    const sent = fields.length === 0 ? undefined : JSON.stringify(Object.fromEntries(values));
    return { method: verb, path, headers, body: sent };
  }
  const query = new URLSearchParams(fields).toString();
  const whole = query === '' ? path : `${path}${path.includes('?') ? '&' : '?'}${query}`;
  return { method: verb, path: whole, headers, body: await readBody(io, body) };
}

function splitField(field: string): [string, string] {
  const at = field.indexOf('=');
  if (at > 0) return [field.slice(0, at), field.slice(at + 1)];
  throw new DuctileError('INPUT_INVALID', `${field} is not key=value`, { place: 'field' });
}

function splitHeader(header: string): [string, string] {
  const at = header.indexOf(':');
  if (at > 0) return [header.slice(0, at).trim(), header.slice(at + 1).trim()];
  throw new DuctileError('INPUT_INVALID', `${header} is not name:value`, { place: 'header' });
}

/** Reads numbers, true, false, null, objects and lists as JSON; all else is text. */
function toValue(written: string): unknown {
  try {
    const value: unknown = parseJson(written);
    return value;
  } catch {
    return written;
  }
}

async function readBody(io: CliIo, body: string | undefined): Promise<string | undefined> {
  if (body === undefined || !body.startsWith('@')) return body;
  const file = body.slice(1);
  try {
    return await readSource(file, io);
  } catch (thrown) {
    throw new DuctileError('INPUT_INVALID', `the body cannot be read: ${messageOf(thrown)}`, {
      place: file,
    });
  }
}

function printHead(io: CliIo, { statusCode = 0, statusMessage = '', headers }: IncomingMessage) {
  io.stdout.write(toVisibleText(`${statusCode} ${statusMessage}`.trim()) + '\n');
  for (const [name, value] of Object.entries(headers)) {
    io.stdout.write(`${toVisibleText(`${name}: ${String(value)}`)}\n`);
  }
  io.stdout.write('\n');
}

/** Prints events as they arrive, until the service or Ctrl-C ends the stream. */
async function printStream(io: CliIo, response: IncomingMessage): Promise<number> {
  io.interruption().addEventListener('abort', () => response.destroy());
  response.setEncoding('utf8');
  try {
    for await (const chunk of response as AsyncIterable<string>) {
      io.stdout.write(chunk.split('\n').map(toVisibleText).join('\n'));
    }
  } catch {
    // The user ended it; everything before was printed.
  }
  return 0;
}

async function printBody(
  io: CliIo,
  target: ServerTarget,
  response: IncomingMessage,
): Promise<number> {
  const { statusCode = 0 } = response;
  const body = await readResponseText(target, response);
  const value = toValue(body);
  const shown = typeof value === 'object' ? JSON.stringify(value, undefined, 2) : body.trimEnd();
  if (shown !== '') io.stdout.write(`${shown.split('\n').map(toVisibleText).join('\n')}\n`);
  if (statusCode < 400) return 0;
  const code = isObject(value) ? value['code'] : undefined;
  const known = Object.entries(catalogue).find(([name]) => name === code);
  return known?.[1].exit ?? 1;
}
