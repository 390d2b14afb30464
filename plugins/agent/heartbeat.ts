/** Asks in conversations that exist whether there is anything to say; mostly there is not. */
import type { Answer, Log, PluginEvent, Request } from '../../sdk/typescript/ductile-plugin.ts';
import { askAgent, type Told } from './ask.ts';
import {
  alone,
  conversationFolder,
  readConversation,
  readSessions,
  toState,
  type Session,
} from './conversation.ts';
import { Ended } from './outcome.ts';
import { readSettings, type Settings } from './settings.ts';
import { nextSession, toReply } from './turn.ts';

interface Asking {
  readonly prompt: string;
  readonly settings: Settings;
  readonly request: Request;
}

export async function heartbeat(request: Request): Promise<Answer> {
  const settings = readSettings(request);
  const { payload } = request;
  const token = payload.text('ack_token') ?? settings.heartbeat.ackToken;
  const pattern = payload.text('prompt') ?? settings.heartbeat.prompt;
  const prompt = pattern.replaceAll('{ack_token}', () => token);
  const only = readConversation(payload);
  const events: PluginEvent[] = [];
  const logs: Log[] = [];
  const faults: Ended[] = [];
  let state = {};
  let silent = 0;
  let unasked = 0;
  for (const [conversation, session] of readSessions(request.state)) {
    if (only !== undefined && only !== conversation) continue;
    const told = await ask(conversation, session, { prompt, settings, request });
    if (typeof told === 'string') {
      unasked += 1;
      logs.push({ level: 'info', message: `${conversation}: ${told}` });
    } else if (told instanceof Ended) {
      faults.push(told);
      logs.push({ level: 'warn', message: `${conversation}: ${told.message}` });
    } else {
      const text = stripToken(told.text, token);
      if (text === '') silent += 1;
      else {
        events.push(toReply(conversation, { ...told, text }, undefined));
        state = { ...state, ...toState(conversation, nextSession(told, settings, session)) };
      }
    }
  }
  const [fault] = faults;
  // One agent that fails does not keep the others from speaking; all of them failing is a failure.
  if (fault !== undefined && events.length + silent === 0) throw fault;
  const result = `${events.length} had something to say, ${silent} had not, ${unasked} were not asked`;
  return { result, events, state_updates: state, logs };
}

/** The answer without its token, at its start and its end alone: in the midst it is talked about. */
export function stripToken(text: string, token: string): string {
  let rest = text.trim();
  for (let before = ''; before !== rest;) {
    before = rest;
    if (rest.startsWith(token) && !/^\w/.test(rest.slice(token.length))) {
      rest = rest.slice(token.length).trim();
    }
    if (rest.endsWith(token) && !/\w$/.test(rest.slice(0, -token.length))) {
      rest = rest.slice(0, -token.length).trim();
    }
  }
  return rest;
}

/** What it said, how it failed, or why it was not asked. */
async function ask(
  conversation: string,
  session: Session,
  { prompt, settings, request }: Asking,
): Promise<Told | Ended | string> {
  const { usual, tasksDir, heartbeat: rules } = settings;
  if (session.provider !== usual.provider.name) return `is with ${session.provider}`;
  if (session.id === null) return 'has no session to go on with';
  const silentMs = Date.now() - Date.parse(session.lastAt);
  if (silentMs < rules.cooldownMs) return 'somebody spoke a moment ago';
  const cwd = await conversationFolder(tasksDir, conversation);
  const question = { prompt, choice: usual, session: session.id, isKept: true, cwd };
  try {
    const told = await alone(cwd, 0, () => askAgent(question, settings, request));
    return told === 'busy' ? 'is busy' : told;
  } catch (thrown) {
    if (thrown instanceof Ended) return thrown;
    throw thrown;
  }
}
