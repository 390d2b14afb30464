/** Runs the next turn of a conversation. */
import type { Answer, Log, Request } from '../../sdk/typescript/ductile-plugin.ts';
import {
  askAgent,
  leastMsOf,
  RUN_MS_MAX,
  summarize,
  type Question,
  type AgentResult,
} from './ask.ts';
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
import { readSettings, readText, type Settings } from './settings.ts';

/** Messages of agents about an unknown session. */
const LOST = /no conversation found|session[^.]*not found|no rollout found|no saved session/i;

export async function turn(request: Request): Promise<Answer> {
  const settings = readSettings(request);
  const { payload } = request;
  const conversation = readConversation(payload);
  if (conversation === undefined) throw payload.refuse('conversation', 'must be set');
  const prompt = payload.text('prompt');
  if (prompt === undefined) throw payload.refuse('prompt', 'must be set');
  const logs: Log[] = [];
  const cwd = await conversationFolder(settings.tasksDir, conversation);
  const leftMs = request.msLeft(RUN_MS_MAX);
  const done = await alone(cwd, leftMs - leastMsOf(leftMs), async () => {
    const recorded = readSessions(request.state).get(conversation);
    const before = payload.flag('fresh') ? undefined : await latestSession(cwd, recorded);
    const session = usable(before, settings, logs);
    const question = { prompt, choice: settings.usual, session, isKept: true, cwd };
    const answer = await goOn(question, settings, request, logs);
    if (answer.text === '') throw new AgentFailure('no_response', '');
    const next = nextSession(answer, settings, before);
    await keepSession(cwd, next);
    return { reply: answer, next };
  });
  if (done === 'busy') {
    throw new AgentFailure('timeout', 'another turn of the conversation took too long', true);
  }
  const { reply, next } = done;
  const title = readText(payload, 'title');
  const hookId = readText(payload, 'hook_id');
  return {
    result: summarize(reply),
    events: [toReply(conversation, reply, title, hookId)],
    state_updates: toState(conversation, next),
    logs,
  };
}

export function toReply(
  conversation: string,
  { text, details }: AgentResult,
  title: string | undefined,
  hookId?: string,
): NonNullable<Answer['events']>[number] {
  return {
    type: 'agent.reply',
    payload: { conversation, text, title: title ?? null, hook_id: hookId ?? null, ...details },
  };
}

export function nextSession(
  reply: AgentResult,
  { usual: { provider } }: Settings,
  before: Session | undefined,
): Session {
  const kept = before?.provider === provider.name ? before.id : null;
  return {
    provider: provider.name,
    id: reply.session ?? kept,
    turns: (before?.turns ?? 0) + 1,
    lastAt: new Date().toISOString(),
  };
}

/** Returns the session if this provider can continue it. */
function usable(
  before: Session | undefined,
  { usual: { provider } }: Settings,
  logs: Log[],
): string | undefined {
  if (before === undefined) return undefined;
  if (before.provider !== provider.name) {
    const message = `the conversation was with ${before.provider} and begins anew with ${provider.name}`;
    logs.push({ level: 'warn', message });
    return undefined;
  }
  const canResume = provider.kind !== 'other' || provider.resume !== undefined;
  return canResume ? (before.id ?? undefined) : undefined;
}

/** Continues a session, or starts a new one if the agent no longer knows it. */
async function goOn(
  question: Question,
  settings: Settings,
  request: Request,
  logs: Log[],
): Promise<AgentResult> {
  try {
    return await askAgent(question, settings, request);
  } catch (thrown) {
    const isLost =
      question.session !== undefined && thrown instanceof AgentFailure && LOST.test(thrown.message);
    if (!isLost) throw thrown;
    logs.push({
      level: 'warn',
      message: `the session is gone, so it begins anew: ${thrown.message}`,
    });
    return askAgent({ ...question, session: undefined }, settings, request);
  }
}
