import type { IncomingHttpHeaders } from 'node:http';
import { DuctileError } from '../base/errors.ts';
import { readAccessRules } from '../operation/authorize.ts';
import type { Context } from '../operation/context.ts';
import { readJsonBody } from './body.ts';
import type { Exchange } from './exchange.ts';
import type { Authenticator } from './authenticate.ts';

/** Handles one message of an AI agent. */
export type McpHandler = (request: {
  readonly context: Context;
  readonly headers: IncomingHttpHeaders;
  readonly message: unknown;
  readonly selection: {
    readonly isReadOnly: boolean;
    readonly nouns?: readonly string[] | undefined;
  };
}) => Promise<{
  readonly status: number;
  readonly type: string | undefined;
  readonly text: string;
}>;

export const MCP_PATH = '/mcp';

interface McpEndpoint {
  readonly mcp: McpHandler;
  readonly authenticator: Authenticator;
  readonly base: Pick<Context, 'engine' | 'submittedBy'>;
}

/** Checks the caller as for every other request, then handles the agent's message. */
export async function serveMcp(
  { mcp, authenticator, base }: McpEndpoint,
  exchange: Exchange,
): Promise<void> {
  const { request } = exchange;
  refuseOrigin(exchange, readAccessRules(base).allowedOrigins);
  const admission = await authenticator.authenticate(exchange, undefined);
  try {
    if (request.method !== 'POST') {
      exchange.extra.push('allow', 'POST, OPTIONS');
      if (request.method === 'OPTIONS') return exchange.respondEmpty(204);
      const hint =
        'Send each message with POST. This endpoint has no sessions and no event stream.';
      throw new DuctileError('METHOD_NOT_ALLOWED', 'MCP messages must be sent with POST', { hint });
    }
    const { engine, principal } = admission;
    const context = { ...base, engine, principal, disconnected: () => exchange.disconnected() };
    const { value: message } = await readJsonBody(request, 'json');
    const selection = readSelection(exchange);
    const { status, type, text } = await mcp({
      context,
      headers: request.headers,
      message,
      selection,
    });
    if (text === '') exchange.respondEmpty(status);
    else exchange.respond(status, `${text}\n`, type);
  } finally {
    admission.leave();
  }
}

/** A stranger's web page must not reach the agent endpoint through a user's browser. */
function refuseOrigin({ request }: Exchange, allowed: readonly string[]): void {
  const { origin } = request.headers;
  if (origin === undefined || allowed.includes(origin) || allowed.includes('*')) return;
  throw new DuctileError('FORBIDDEN', 'requests from this origin are not allowed', {
    place: 'origin',
    hint: 'Add the origin to `api.allowed_origins`.',
  });
}

/** Reads which tools the agent gets from the query. */
function readSelection({ url }: Exchange): { isReadOnly: boolean; nouns?: readonly string[] } {
  const query = new URLSearchParams(url.includes('?') ? url.slice(url.indexOf('?')) : '');
  for (const name of query.keys()) {
    if (name === 'readonly' || name === 'only') continue;
    throw new DuctileError('INPUT_INVALID', 'the query accepts the parameters readonly and only', {
      place: 'query',
    });
  }
  const readonly = query.get('readonly') ?? 'false';
  // Refuse other spellings: a caller who wants read-only must never change something.
  if (readonly !== 'true' && readonly !== 'false') {
    throw new DuctileError('INPUT_INVALID', 'readonly must be true or false', {
      place: 'readonly',
    });
  }
  const only = query.get('only');
  return { isReadOnly: readonly === 'true', ...(only === null ? {} : { nouns: only.split(',') }) };
}
