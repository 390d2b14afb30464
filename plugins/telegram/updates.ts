/**
 * Reads messages of users. Telegram repeats an update until a later one is requested. The offset is stored
 * together with the events, so nothing is lost or duplicated.
 */
import {
  Failure,
  isObject,
  type Answer,
  type Json,
  type JsonObject,
  type PluginEvent,
  type Request,
} from '../../sdk/typescript/ductile-plugin.ts';
import { call, Refusal } from './bot-api.ts';
import { readSettings, type Bot, type Settings } from './settings.ts';

/** Events per attempt; the next poll reads the rest. */
const UPDATES_MAX = 100;
const ANSWER_MS = 5000;

export async function poll(request: Request): Promise<Answer> {
  const settings = readSettings(request.config);
  if (settings.allowedUsers.size === 0) {
    throw request.config.refuse('allowed_users', 'must list whom to listen to');
  }
  const updates = await ask(settings, offsetOf(request.state, settings.bot), request);
  const last = updates.at(-1)?.id;
  if (last === undefined) return { result: 'nobody wrote' };
  const events = updates.flatMap(({ id, message }) => toEvents(id, message, settings));
  const others = updates.length - events.length;
  return {
    result: `${events.length} messages`,
    events,
    state_updates: { bot: settings.bot.id, offset: last + 1 },
    logs:
      others === 0
        ? []
        : [{ level: 'info', message: `${others} updates were no text of an allowed user` }],
  };
}

interface Update {
  readonly id: number;
  readonly message: JsonObject;
}

/** Returns the stored offset, if it belongs to this bot. */
function offsetOf({ bot, offset }: JsonObject, { id }: Bot): number | undefined {
  return bot === id && typeof offset === 'number' ? offset : undefined;
}

async function ask(
  { bot, waitMs }: Settings,
  offset: number | undefined,
  { msLeft }: Request,
): Promise<Update[]> {
  const waitS = Math.floor(
    Math.min(waitMs, Math.max(0, msLeft(waitMs + ANSWER_MS) - ANSWER_MS)) / 1000,
  );
  const params = {
    limit: UPDATES_MAX,
    timeout: waitS,
    allowed_updates: ['message'],
    ...(offset === undefined ? {} : { offset }),
  };
  let answer: Json;
  try {
    answer = await call(bot, 'getUpdates', params, { msLeft, timeoutMs: waitS * 1000 + ANSWER_MS });
  } catch (thrown) {
    throw thrown instanceof Refusal ? thrown.toFailure() : thrown;
  }
  if (!Array.isArray(answer)) throw new Failure('the answer to getUpdates is no list', true);
  return answer.flatMap(toUpdate).toSorted((one, other) => one.id - other.id);
}

function toUpdate(value: Json): Update[] {
  if (!isObject(value)) return [];
  const { update_id: id, message } = value;
  const isUpdate = typeof id === 'number' && Number.isSafeInteger(id);
  return isUpdate ? [{ id, message: isObject(message) ? message : {} }] : [];
}

/** Converts texts of allowed users; other members of a group are ignored. */
function toEvents(id: number, message: JsonObject, settings: Settings): PluginEvent[] {
  const { text, message_id: messageId } = message;
  const user = idOf(message['from']);
  const chat = idOf(message['chat']);
  if (typeof text !== 'string' || text.trim() === '' || typeof messageId !== 'number') return [];
  if (user === undefined || chat === undefined || !settings.allowedUsers.has(user)) return [];
  const payload = {
    chat,
    user,
    text: text.toWellFormed().replaceAll('\0', ''),
    message_id: messageId,
  };
  return [{ type: 'telegram.message', payload, dedupe_key: `telegram:${settings.bot.id}:${id}` }];
}

function idOf(value: Json | undefined): string | undefined {
  const id = isObject(value) ? value['id'] : undefined;
  return typeof id === 'number' && Number.isSafeInteger(id) ? String(id) : undefined;
}
