/** Sends a text to chats: each part once over all attempts. A refusal of one chat doesn't affect others. */
import { Failure, type Log, type Request } from '../../sdk/typescript/ductile-plugin.ts';
import { call, Refusal } from './bot-api.ts';
import { openJournal, type Journal } from './journal.ts';
import { split } from './message.ts';
import type { Settings } from './settings.ts';

export interface Delivery {
  readonly chats: readonly string[];
  readonly text: string;
  readonly settings: Settings;
  readonly request: Pick<Request, 'idempotencyKey' | 'msLeft'>;
}

export async function deliver(
  delivery: Delivery,
): Promise<{ readonly sent: number; readonly logs: readonly Log[] }> {
  const { chats, text, settings, request } = delivery;
  const pieces = split(text);
  if (pieces.length === 0) throw new Failure('there is nothing to say: the text is empty', false);
  const journal = await openJournal(settings.journalDir, settings.bot.id, request.idempotencyKey);
  const refusals: Error[] = [];
  let reached = 0;
  let sent = 0;
  for (const chat of chats) {
    try {
      sent += await sendAll(chat, pieces, journal, delivery);
      reached += 1;
    } catch (thrown) {
      const isRefusal = thrown instanceof Refusal && !thrown.isPassing;
      // Sent parts are recorded, so the next attempt continues here.
      if (!isRefusal) throw thrown instanceof Refusal ? thrown.toFailure() : thrown;
      refusals.push(thrown);
    }
  }
  const words = refusals.map(({ message }) => message);
  if (reached === 0) throw new Failure(words.join('; '), false);
  return { sent, logs: words.map((message) => ({ level: 'error', message })) };
}

async function sendAll(
  chat: string,
  pieces: readonly string[],
  journal: Journal,
  delivery: Delivery,
): Promise<number> {
  let sent = 0;
  for (const [index, piece] of pieces.entries()) {
    const part = `${chat} ${index}`;
    if (journal.has(part)) continue;
    await send(chat, piece, delivery);
    await journal.add(part);
    sent += 1;
  }
  return sent;
}

/** Sends with markup, or without it if Telegram can't parse it. */
async function send(chat: string, text: string, { settings, request }: Delivery): Promise<void> {
  const { bot, parseMode, timeoutMs } = settings;
  const patience = { msLeft: request.msLeft, timeoutMs };
  const plain = { chat_id: chat, text };
  if (parseMode !== undefined) {
    try {
      await call(bot, 'sendMessage', { ...plain, parse_mode: parseMode }, patience);
      return;
    } catch (thrown) {
      const isMarkup = thrown instanceof Refusal && /can't parse entities/i.test(thrown.message);
      if (!isMarkup) throw thrown;
    }
  }
  await call(bot, 'sendMessage', plain, patience);
}
