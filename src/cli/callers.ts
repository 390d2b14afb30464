import { request } from 'node:http';
import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { catalogue, DuctileError, messageOf } from '../base/errors.ts';
import type { ErrorCode } from '../base/errors.ts';
import { isObject } from '../base/json.ts';
import type { JsonObject } from '../base/json.ts';
import type { Context } from '../operations/context.ts';
import { isOffered } from '../operations/define.ts';
import type { JsonOutput, Operation } from '../operations/define.ts';
import { operations } from '../operations/index.ts';
import { toRequest } from '../operations/wire.ts';
import type { WireRequest } from '../operations/wire.ts';
import type { Caller } from './host.ts';

/** Asks the running server over its control socket. */
export class HttpCaller implements Caller {
  readonly #socketPath: string;

  constructor(socketPath: string) {
    this.#socketPath = socketPath;
  }

  async call(name: string, input: Readonly<Record<string, unknown>>): Promise<JsonOutput> {
    const { http } = lookup(name);
    if (!isOffered(http)) throw new DuctileError('ENDPOINT_NOT_FOUND', `${name}: ${http.absent}`);
    const answer = parseAnswer(await this.#exchange(toRequest(http, input)));
    if (typeof answer['code'] === 'string' && typeof answer['error'] === 'string') {
      throw toError(answer, answer['code'], answer['error']);
    }
    return answer;
  }

  async #exchange({ method, path, body }: WireRequest): Promise<string> {
    try {
      const response = await new Promise<IncomingMessage>((resolve, reject) => {
        const headers = body === undefined ? {} : { 'content-type': 'application/json' };
        const asked = request({
          socketPath: this.#socketPath,
          method,
          path,
          headers,
          agent: false,
        });
        asked.once('response', resolve);
        asked.once('error', reject);
        asked.end(body);
      });
      return await text(response);
    } catch (thrown) {
      throw new DuctileError(
        'SERVER_UNREACHABLE',
        `the server did not answer: ${messageOf(thrown)}`,
        {
          place: this.#socketPath,
          cause: thrown,
        },
      );
    }
  }
}

/** Runs operations in this very process. */
export class LocalCaller implements Caller {
  readonly #context: Context;

  constructor(context: Context) {
    this.#context = context;
  }

  async call(name: string, input: Readonly<Record<string, unknown>>): Promise<JsonOutput> {
    const { invoke } = await import('../operations/invoke.ts');
    return invoke(lookup(name), this.#context, input);
  }
}

function lookup(name: string): Operation {
  const operation = operations.find((candidate) => candidate.name === name);
  if (operation === undefined) throw new Error(`there is no operation ${name}`);
  return operation;
}

function parseAnswer(body: string): JsonObject {
  try {
    const answer: unknown = JSON.parse(body);
    if (isObject(answer)) return answer;
  } catch {
    // It is said below, in the same words as for JSON of the wrong kind.
  }
  throw new DuctileError(
    'SERVER_UNREACHABLE',
    'the server answered with something else than JSON',
    {
      hint: 'Something else may be listening on the socket; see the log of the server.',
    },
  );
}

/** The server's error again, as it was thrown there. */
function toError(answer: JsonObject, code: string, message: string): DuctileError {
  const { place, hint, details } = answer;
  return new DuctileError(isCode(code) ? code : 'INTERNAL', message, {
    ...(typeof place === 'string' ? { place } : {}),
    ...(typeof hint === 'string' ? { hint } : {}),
    ...(isObject(details) ? { details } : {}),
  });
}

function isCode(code: string): code is ErrorCode {
  return Object.hasOwn(catalogue, code);
}
