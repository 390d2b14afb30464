/** Asks in conversations that exist whether there is anything to say; mostly there is not. */
import type {
  Answer,
  JsonObject,
  Log,
  PluginEvent,
  Request,
} from '../../sdk/typescript/ductile-plugin.ts';
import { askAgent, type Told } from './ask.ts';
import {
  conversationFolder,
  keepSession,
  latestSession,
  readConversation,
  readSessions,
  toState,
  type Session,
} from './conversation.ts';
import { alone } from './lock.ts';
import { Ended } from './outcome.ts';
import { readSettings, type Settings } from './settings.ts';
import { nextSession, toReply } from './turn.ts';

interface Asking {
  readonly prompt: string;
  readonly token: string;
  readonly settings: Settings;
  readonly request: Request;
}

interface Heard {
  /** Without the token; an empty text is not told. */
  readonly told: Told;
  readonly next: Session;
}

export async function heartbeat(request: Request): Promise<Answer> {
  const settings = readSettings(request);
  const { payload } = request;
  const token = payload.text('ack_token') ?? settings.heartbeat.ackToken;
  const pattern = payload.text('prompt') ?? settings.heartbeat.prompt;
  const prompt = pattern.replaceAll('{ack_token}', () => token);
  const only = readConversation(payload);
  const spoken = new Map<string, Session>();
  const events: PluginEvent[] = [];
  const logs: Log[] = [];
  const faults: Ended[] = [];
  let silent = 0;
  let unasked = 0;
  for (const [conversation, session] of readSessions(request.state)) {
    if (only !== undefined && only !== conversation) continue;
    const heard = await ask(conversation, session, { prompt, token, settings, request });
    if (typeof heard === 'string') {
      unasked += 1;
      logs.push({ level: 'info', message: `${conversation}: ${heard}` });
    } else if (heard instanceof Ended) {
      faults.push(heard);
      logs.push({ level: 'warn', message: `${conversation}: ${heard.message}` });
    } else if (heard.told.text === '') silent += 1;
    else {
      events.push(toReply(conversation, heard.told, undefined));
      spoken.set(conversation, heard.next);
    }
  }
  const [fault] = faults;
  // One agent that fails does not keep the others from speaking; all of them failing is a failure.
  if (fault !== undefined && events.length + silent === 0) throw fault;
  const result = `${events.length} had something to say, ${silent} had not, ${unasked} were not asked`;
  return { result, events, state_updates: await toStates(spoken, settings), logs };
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
  remembered: Session,
  asking: Asking,
): Promise<Heard | Ended | string> {
  const cwd = await conversationFolder(asking.settings.tasksDir, conversation);
  try {
    const heard = await alone(cwd, 0, () => askNow(cwd, remembered, asking));
    return heard === 'busy' ? 'is busy' : heard;
  } catch (thrown) {
    if (thrown instanceof Ended) return thrown;
    throw thrown;
  }
}

/** Only now that nobody else speaks there it is known who spoke last, and in which session. */
async function askNow(
  cwd: string,
  remembered: Session,
  { prompt, token, settings, request }: Asking,
): Promise<Heard | string> {
  const session = (await latestSession(cwd, remembered)) ?? remembered;
  const { id } = session;
  const reason = reasonAgainst(session, settings);
  if (id === null || reason !== undefined) return reason ?? 'has no session to go on with';
  const question = { prompt, choice: settings.usual, session: id, isKept: true, cwd };
  const said = await askAgent(question, settings, request);
  const told = { ...said, text: stripToken(said.text, token) };
  const next = nextSession(told, settings, session);
  if (told.text !== '') await keepSession(cwd, next);
  return { told, next };
}

function reasonAgainst(
  { provider, lastAt }: Session,
  { usual, heartbeat: rules }: Settings,
): string | undefined {
  if (provider !== usual.provider.name) return `is with ${provider}`;
  const silentMs = Date.now() - Date.parse(lastAt);
  return silentMs < rules.cooldownMs ? 'somebody spoke a moment ago' : undefined;
}

/** Somebody may have spoken in one of them while others were asked. */
async function toStates(
  spoken: ReadonlyMap<string, Session>,
  { tasksDir }: Settings,
): Promise<JsonObject> {
  let state = {};
  for (const [conversation, session] of spoken) {
    const cwd = await conversationFolder(tasksDir, conversation);
    const latest = (await latestSession(cwd, session)) ?? session;
    state = { ...state, ...toState(conversation, latest) };
  }
  return state;
}
