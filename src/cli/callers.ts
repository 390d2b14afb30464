import type { IncomingMessage } from 'node:http';
import { catalogue } from '../base/error-catalogue.ts';
import { DuctileError, type ErrorCode } from '../base/errors.ts';
import { isObject, type JsonObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import type { Context } from '../operation/context.ts';
import type { JsonOutput, Operation } from '../operation/define.ts';
import { toRequest } from '../operation/request.ts';
import { commands } from './commands.ts';
import type { CommandDefinition } from './commands.ts';
import type { OperationCaller } from './host.ts';
import { nameTarget, readResponseText, send } from './transport.ts';
import type { ServerTarget } from './transport.ts';

/** Calls a running service, over its control socket or its URL. */
export class HttpCaller implements OperationCaller {
  readonly #target: ServerTarget;
  readonly #headers: Readonly<Record<string, string>>;

  /** `headers` are sent with every request. */
  constructor(target: ServerTarget, headers: Readonly<Record<string, string>> = {}) {
    this.#target = target;
    this.#headers = headers;
  }

  async call(name: string, input: Readonly<Record<string, unknown>>): Promise<JsonOutput> {
    const { http, answers } = lookup(name);
    if (http === undefined) {
      throw new DuctileError('ENDPOINT_NOT_FOUND', `${name} is not available over HTTP`);
    }
    // Some endpoints stream unless the client asks for JSON.
    const headers = { ...this.#headers, accept: 'application/json' };
    const response = await send(this.#target, { ...toRequest(http, input), headers });
    const answer = parseResult(
      this.#target,
      response,
      await readResponseText(this.#target, response),
    );
    const isKnown = answers.length === 0 || answers.some((field) => field in answer);
    if (isKnown || answer['dry_run'] === true) return answer;
    throw foreignServer(this.#target, 'the response lacks the expected fields');
  }
}

/** Runs operations in this process. */
export class LocalCaller implements OperationCaller {
  readonly #context: Context;
  readonly #load: LoadOperations;

  /** `load` may return only a few operations, to start faster. */
  constructor(context: Context, load: LoadOperations = loadOperations) {
    this.#context = context;
    this.#load = load;
  }

  async call(name: string, input: Readonly<Record<string, unknown>>): Promise<JsonOutput> {
    const { invoke } = await import('../operation/invoke.ts');
    const operation = (await this.#load(name)).find((candidate) => candidate.name === name);
    if (operation === undefined) throw new Error(`there is no operation ${name}`);
    return invoke(operation, this.#context, input);
  }
}

/** Loads operations, among them the one of this name. */
type LoadOperations = (name: string) => Promise<readonly Operation[]>;

export async function loadOperations(): Promise<readonly Operation[]> {
  const { operations } = await import('../operation/all.ts');
  return operations;
}

/** Parses the result, or throws the error that the service returned. */
export function parseResult(
  target: ServerTarget,
  { statusCode = 0 }: IncomingMessage,
  body: string,
) {
  const answer = parseObject(body);
  if (answer === undefined) throw foreignServer(target, 'the response is not JSON');
  const { code, error } = answer;
  if (typeof code === 'string' && typeof error === 'string') {
    throw toError(target, answer, { code, error, statusCode });
  }
  if (statusCode < 400 || statusCode === 503) return answer;
  throw foreignServer(target, `the response has status ${statusCode} without an error code`);
}

function lookup(name: string): CommandDefinition {
  const definition = commands.find((candidate) => candidate.name === name);
  if (definition === undefined) throw new Error(`there is no operation ${name}`);
  return definition;
}

function parseObject(body: string): JsonObject | undefined {
  try {
    const answer: unknown = parseJson(body);
    return isObject(answer) ? answer : undefined;
  } catch {
    return undefined;
  }
}

function foreignServer(target: ServerTarget, reason: string): DuctileError {
  const message = `the server at this address is not Ductile: ${reason}`;
  return new DuctileError('SERVER_FOREIGN', message, { place: nameTarget(target) });
}

interface ServerError {
  readonly code: string;
  readonly error: string;
  readonly statusCode: number;
}

/** Rebuilds the service's error as it was thrown there. */
function toError(
  target: ServerTarget,
  answer: JsonObject,
  { code, error, statusCode }: ServerError,
) {
  const { place, details } = answer;
  const hint = statusCode === 401 ? tokenHint(target) : answer['hint'];
  return new DuctileError(isCode(code) ? code : 'INTERNAL', error, {
    ...(typeof place === 'string' ? { place } : {}),
    ...(typeof hint === 'string' ? { hint } : {}),
    ...(isObject(details) ? { details } : {}),
  });
}

function tokenHint(target: ServerTarget): string {
  const isGiven = 'token' in target && target.token !== undefined;
  return isGiven
    ? 'The token is unknown, expired or revoked. Set DUCTILE_TOKEN to another token.'
    : 'Set DUCTILE_TOKEN to a token of that service. Other users can see the value of --token.';
}

function isCode(code: string): code is ErrorCode {
  return Object.hasOwn(catalogue, code);
}
