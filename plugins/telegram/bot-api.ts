/** Calls Telegram's Bot API. The URL contains the token and is never shown. */
import { setTimeout as sleep } from 'node:timers/promises';
import {
  ConfigError,
  Failure,
  isObject,
  messageOf,
  type Json,
  type JsonObject,
} from '../../sdk/typescript/ductile-plugin.ts';
import type { Bot } from './settings.ts';

/** Telegram refused the call. */
export class Refusal extends Error {
  readonly status: number;
  /** Seconds to wait, if Telegram says so. */
  readonly retryAfterS: number | undefined;

  constructor(status: number, description: string, retryAfterS: number | undefined) {
    super(description);
    this.status = status;
    this.retryAfterS = retryAfterS;
  }

  /** True if a retry may succeed. */
  get isPassing(): boolean {
    return this.status === 429 || this.status === 409 || this.status >= 500;
  }

  /** Converts it to a failure of the job, with the time of the next attempt. */
  toFailure(): Failure {
    return new Failure(this.message, this.isPassing, this.retryAfterS);
  }
}

const ANSWER_CHARACTERS_MAX = 8_000_000;
/** A longer wait is left to the next attempt, which doesn't use a slot meanwhile. */
const WAIT_MS_MAX = 30_000;

export interface Patience {
  /** Remaining milliseconds of this job. */
  readonly msLeft: (atMost: number) => number;
  readonly timeoutMs: number;
}

/** Calls a method, and repeats it after short waits that Telegram requests. */
export async function call(
  bot: Bot,
  method: string,
  params: JsonObject,
  patience: Patience,
): Promise<Json> {
  for (;;) {
    try {
      return await callOnce(bot, method, params, patience.msLeft(patience.timeoutMs));
    } catch (thrown) {
      const waitMs = (thrown instanceof Refusal ? (thrown.retryAfterS ?? 0) : 0) * 1000;
      const hasTime = waitMs < patience.msLeft(WAIT_MS_MAX);
      if (waitMs === 0 || !hasTime) throw thrown;
      await sleep(waitMs);
    }
  }
}

async function callOnce(bot: Bot, method: string, params: JsonObject, ms: number): Promise<Json> {
  const host = new URL(bot.apiUrl).host;
  let status: number;
  let text: string;
  try {
    const response = await fetch(`${bot.apiUrl}/bot${bot.token}/${method}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(params),
      redirect: 'manual',
      signal: AbortSignal.timeout(Math.ceil(ms)),
    });
    status = response.status;
    text = await response.text();
  } catch (thrown) {
    throw new Failure(`${host} could not be asked: ${reasonOf(thrown)}`, true);
  }
  const answer = text.length > ANSWER_CHARACTERS_MAX ? undefined : parse(text);
  if (answer?.['ok'] === true) return answer['result'] ?? null;
  throw refusalOf(host, status, answer);
}

function refusalOf(host: string, status: number, answer: JsonObject | undefined): Error {
  const said = answer?.['description'];
  const description = typeof said === 'string' ? said.slice(0, 300) : 'no answer of the Bot API';
  // An unknown token gets 401, a malformed one 404.
  if (answer !== undefined && (status === 401 || status === 404)) {
    return new ConfigError(`config.token is refused by ${host}: ${description}`);
  }
  const parameters = answer?.['parameters'];
  const { retry_after: after, migrate_to_chat_id: movedTo } = isObject(parameters)
    ? parameters
    : {};
  const moved = typeof movedTo === 'number' ? ` (its id is now ${movedTo})` : '';
  const words = `${host} answered ${status}: ${description}${moved}`;
  return new Refusal(status, words, typeof after === 'number' ? after : undefined);
}

function parse(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Describes a network error without the URL. */
function reasonOf(thrown: unknown): string {
  if (thrown instanceof Error && thrown.name === 'TimeoutError') return 'it took too long';
  const cause = thrown instanceof Error ? thrown.cause : undefined;
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
  return code === ''
    ? messageOf(cause ?? 'no connection').replaceAll(/bot\d+:[\w-]+/g, 'bot…')
    : code;
}
