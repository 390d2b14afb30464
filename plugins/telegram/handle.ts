/** Sends an event to its chats. */
import type { Answer, Request } from '../../sdk/typescript/ductile-plugin.ts';
import { deliver, type Delivery } from './delivery.ts';
import { compose } from './message.ts';
import { chatOf, readSettings, type Settings } from './settings.ts';

export async function handle(request: Request): Promise<Answer> {
  const settings = readSettings(request.config);
  const { values } = request.payload;
  const chats = chatsFor(request, settings);
  if (typeof chats === 'string') return { result: `nothing sent: ${chats}` };
  const type = typeOf(request);
  const text = compose(type, values, settings.template, (message) => request.log.warn(message));
  const delivery: Delivery = { chats, text, settings, request };
  const { sent, logs } = await deliver(delivery);
  return {
    result: `sent to ${chats.length === 1 ? `chat ${chats[0]}` : `${chats.length} chats`}`,
    events: [{ type: 'telegram.sent', payload: { chats: [...chats], messages: sent } }],
    logs,
  };
}

/** A step defines its own message, whatever event caused it. */
function typeOf({ eventType, stepId }: Request): string {
  return stepId === '' ? eventType : '';
}

/** Returns the chats, or the reason why there are none. */
function chatsFor(request: Request, settings: Settings): string[] | string {
  const { payload, config } = request;
  if (typeOf(request) !== 'agent.reply') {
    if (settings.chats.length > 0) return [...settings.chats];
    throw config.refuse('chats', 'must list who is told');
  }
  const conversation = payload.text('conversation');
  if (conversation === undefined) throw payload.refuse('conversation', 'must be set');
  const chat = chatOf(conversation, settings);
  return chat === undefined ? `the conversation ${conversation} has no chat here` : [chat];
}
