/** A fake of Telegram's Bot API. */
import { startWebServer } from './web-server.ts';

export interface SentMessage {
  readonly chat_id: string;
  readonly text: string;
  readonly parse_mode?: string;
}

export interface TelegramServer {
  readonly url: string;
  readonly token: string;
  /** Accepted messages, in order. */
  readonly sent: SentMessage[];
  /** Messages of users, which are returned until later ones are requested. */
  readonly updates: { readonly update_id: number; readonly message?: unknown }[];
  /** Parameters of all getUpdates calls. */
  readonly polls: Record<string, unknown>[];
  /** Responses to the next messages; undefined accepts one. */
  readonly refusals: (Refusal | undefined)[];
}

export interface Refusal {
  readonly status: number;
  readonly description: string;
  readonly parameters?: Readonly<Record<string, number>>;
}

interface Update {
  readonly update_id: number;
}

const token = '4242:secret_Token-of_the_Bot';

export async function startTelegramServer(): Promise<TelegramServer> {
  const sent: SentMessage[] = [];
  const updates: Update[] = [];
  const polls: Record<string, unknown>[] = [];
  const refusals: (Refusal | undefined)[] = [];
  const call = (method: string, params: Record<string, unknown>): unknown => {
    if (method === 'getMe') return { id: 4242, is_bot: true, username: 'ductile_test_bot' };
    if (method === 'sendMessage') return accept(params as unknown as SentMessage, sent, refusals);
    if (method !== 'getUpdates') throw refusal(404, 'Not Found');
    polls.push(params);
    const offset = Number(params['offset'] ?? 0);
    const remaining = updates.filter(({ update_id: id }) => id >= offset);
    updates.splice(0, updates.length, ...remaining);
    return remaining.slice(0, Number(params['limit'] ?? 100));
  };
  const { url } = await startWebServer(({ path, body }, response) => {
    const [, usedToken, method = ''] = /^\/bot([^/]+)\/(\w+)$/.exec(path) ?? [];
    const respond = (status: number, value: object): void => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(value));
    };
    try {
      if (usedToken !== token) throw refusal(401, 'Unauthorized');
      respond(200, { ok: true, result: call(method, JSON.parse(body) as Record<string, unknown>) });
    } catch (thrown) {
      const { status, description, parameters } = (thrown as Error).cause as Refusal;
      respond(status, { ok: false, error_code: status, description, parameters });
    }
  });
  return { url, token, sent, updates, polls, refusals };
}

/** Refuses messages like Telegram: without text, too long, or with invalid markup. */
function accept(
  message: SentMessage,
  sent: SentMessage[],
  refusals: (Refusal | undefined)[],
): object {
  const next = refusals.shift();
  if (next !== undefined) throw refusal(next.status, next.description, next.parameters);
  if (message.text.trim() === '') throw refusal(400, 'Bad Request: message text is empty');
  if (message.text.length > 4096) throw refusal(400, 'Bad Request: message is too long');
  if (message.parse_mode !== undefined && (message.text.split('*').length - 1) % 2 === 1) {
    throw refusal(400, "Bad Request: can't parse entities: Can't find end of Bold entity");
  }
  sent.push(message);
  return { message_id: sent.length, chat: { id: message.chat_id }, text: message.text };
}

function refusal(
  status: number,
  description: string,
  parameters?: Readonly<Record<string, number>>,
): Error {
  return new Error(description, { cause: { status, description, parameters } });
}
