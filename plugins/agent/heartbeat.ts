/** Asks the agents of existing conversations whether they have anything to report. */
import type { Answer, Log, PluginEvent, Request } from '../../sdk/typescript/ductile-plugin.ts';
import { askAgent, leastMsOf, RUN_MS_MAX, type AgentResult } from './ask.ts';
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
import { AgentFailure } from './outcome.ts';
import { readSettings, type Settings } from './settings.ts';
import { nextSession, toReply } from './turn.ts';

interface Asking {
  readonly prompt: string;
  readonly token: string;
  readonly settings: Settings;
  readonly request: Request;
  /** Its share of the time. */
  readonly shareMs: number;
}

interface HeartbeatResult {
  /** Result without the token; an empty text isn't reported. */
  readonly reply: AgentResult;
  readonly next: Session;
}

/** Minimum share of time for a conversation. */
const SHARE_MS_MIN = 500;
/** Punctuation, markup and white space, but no emoji, which may have a meaning. */
const WORDLESS = /^(?:[\p{P}\p{Sm}\p{Sk}\s]|<\/?[a-z]+>)*$/u;

export async function heartbeat(request: Request): Promise<Answer> {
  const settings = readSettings(request);
  const { payload } = request;
  const token = payload.text('ack_token') ?? settings.heartbeat.ackToken;
  const pattern = payload.text('prompt') ?? settings.heartbeat.prompt;
  const prompt = pattern.replaceAll('{ack_token}', () => token);
  const only = readConversation(payload);
  const round = new Round();
  const due: [conversation: string, session: Session][] = [];
  for (const [conversation, recorded] of readSessions(request.state)) {
    if (only !== undefined && only !== conversation) continue;
    const session = await lookUp(conversation, recorded, settings);
    const reason = reasonAgainst(session, settings);
    if (reason === undefined) due.push([conversation, session]);
    else round.take(conversation, reason);
  }
  for (const [index, [conversation, session]] of due.entries()) {
    const shareMs = shareOf(request.msLeft(RUN_MS_MAX), due.length - index);
    const asking = { prompt, token, settings, request, shareMs };
    round.take(conversation, await ask(conversation, session, asking));
  }
  return round.toAnswer(settings);
}

/** Results of all conversations of a heartbeat. */
class Round {
  readonly #events: PluginEvent[] = [];
  readonly #logs: Log[] = [];
  readonly #spoken = new Map<string, Session>();
  #fault: AgentFailure | undefined;
  #silent = 0;
  #unasked = 0;

  /** Records a result, a failure, or the reason why the agent wasn't asked. */
  take(conversation: string, result: HeartbeatResult | AgentFailure | string): void {
    if (typeof result === 'string') {
      this.#unasked += 1;
      this.#logs.push({ level: 'info', message: `${conversation}: ${result}` });
    } else if (result instanceof AgentFailure) {
      this.#fault ??= result;
      this.#logs.push({ level: 'warn', message: `${conversation}: ${result.message}` });
    } else if (result.reply.text === '') this.#silent += 1;
    else {
      this.#events.push(toReply(conversation, result.reply, undefined));
      this.#spoken.set(conversation, result.next);
    }
  }

  /** Combines the results. Single failures are logged; the heartbeat fails only if all agents failed. */
  async toAnswer(settings: Settings): Promise<Answer> {
    const { length: spoke } = this.#events;
    if (this.#fault !== undefined && spoke + this.#silent === 0) throw this.#fault;
    let state = {};
    for (const [conversation, session] of this.#spoken) {
      // Another turn may have run meanwhile.
      const latest = await lookUp(conversation, session, settings);
      state = { ...state, ...toState(conversation, latest) };
    }
    const result = `${spoke} had something to say, ${this.#silent} had not, ${this.#unasked} were not asked`;
    return { result, events: this.#events, state_updates: state, logs: this.#logs };
  }
}

/** Removes the token at the start and the end of a text; in between, the text talks about it. */
export function stripToken(text: string, token: string): string {
  if (saysOnly(text, token)) return '';
  let rest = text.trim();
  for (let before = ''; before !== rest;) {
    before = rest;
    if (rest.startsWith(token) && !/^\S/.test(rest.slice(token.length))) {
      rest = rest.slice(token.length).trim();
    }
    if (rest.endsWith(token) && !/\S$/.test(rest.slice(0, -token.length))) {
      rest = rest.slice(0, -token.length).trim();
    }
  }
  return rest;
}

function saysOnly(text: string, token: string): boolean {
  const besides = text.toLowerCase().split(token.toLowerCase());
  return besides.length > 1 && besides.every((part) => WORDLESS.test(part));
}

/** Limits each conversation to its share of the remaining time. */
function shareOf(leftMs: number, count: number): number {
  return Math.max(leftMs / count, leastMsOf(leftMs));
}

async function ask(
  conversation: string,
  known: Session,
  asking: Asking,
): Promise<HeartbeatResult | AgentFailure | string> {
  if (asking.shareMs < SHARE_MS_MIN) return 'there was no time left';
  const cwd = await conversationFolder(asking.settings.tasksDir, conversation);
  try {
    const result = await alone(cwd, 0, () => askNow(cwd, known, asking));
    return result === 'busy' ? 'is busy' : result;
  } catch (thrown) {
    if (thrown instanceof AgentFailure) return thrown;
    throw thrown;
  }
}

/** Asks the agent under the lock, because the latest session is only known then. */
async function askNow(
  cwd: string,
  known: Session,
  { prompt, token, settings, request, shareMs }: Asking,
): Promise<HeartbeatResult | string> {
  const session = await latestSession(cwd, known);
  const reason = reasonAgainst(session, settings);
  if (reason !== undefined) return reason;
  const id = session.id ?? undefined;
  const question = { prompt, choice: settings.usual, session: id, isKept: true, cwd };
  const msLeft: Request['msLeft'] = (atMost) => request.msLeft(Math.min(atMost, shareMs));
  const response = await askAgent(question, settings, { api: request.api, msLeft });
  const reply = { ...response, text: stripToken(response.text, token) };
  const next = nextSession(reply, settings, session);
  if (reply.text !== '') await keepSession(cwd, next);
  return { reply, next };
}

async function lookUp(
  conversation: string,
  known: Session,
  { tasksDir }: Settings,
): Promise<Session> {
  const folder = await conversationFolder(tasksDir, conversation);
  return latestSession(folder, known);
}

function reasonAgainst(
  { provider, id, lastAt }: Session,
  { usual, heartbeat: rules }: Settings,
): string | undefined {
  if (provider !== usual.provider.name) return `is with ${provider}`;
  if (id === null) return 'has no session to go on with';
  const silentMs = Date.now() - Date.parse(lastAt);
  return silentMs < rules.cooldownMs ? 'somebody spoke a moment ago' : undefined;
}
