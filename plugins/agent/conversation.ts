/** Stores the session of each conversation, in the state and in its folder. */
import { createHash } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  isObject,
  type Fields,
  type Json,
  type JsonObject,
} from '../../sdk/typescript/ductile-plugin.ts';
import { makeOwnFolder } from './folder.ts';
import { parseJson } from './parsed.ts';

export interface Session {
  readonly provider: string;
  /** Null if the provider has no session ids, so that each turn starts a session. */
  readonly id: string | null;
  readonly turns: number;
  readonly lastAt: string;
}

const PREFIX = 'session:';
const LAST = '.session';

export function readConversation(payload: Fields): string | undefined {
  const name = payload.text('conversation');
  if (name === undefined || /^[^\p{Cc}]{1,128}$/u.test(name)) return name;
  throw payload.refuse('conversation', 'must be a name of at most 128 characters');
}

export function readSessions(state: JsonObject): ReadonlyMap<string, Session> {
  const sessions = new Map<string, Session>();
  for (const [key, value] of Object.entries(state)) {
    const session = key.startsWith(PREFIX) ? readSession(value) : undefined;
    if (session !== undefined) sessions.set(key.slice(PREFIX.length), session);
  }
  return sessions;
}

export function toState(conversation: string, session: Session): JsonObject {
  return { [`${PREFIX}${conversation}`]: toValue(session) };
}

function toValue({ provider, id, turns, lastAt }: Session): JsonObject {
  return { provider, id, turns, last_at: lastAt };
}

/**
 * Returns the newer of the session in the job's state and the one that the last turn left in the folder.
 * The state is that of the claim, and other jobs may have ended since.
 */
export async function latestSession<T extends Session | undefined>(
  folder: string,
  recorded: T,
): Promise<Session | T> {
  const text = await readFile(join(folder, LAST), 'utf8').catch(() => '');
  const left = readSession(parseJson(text) ?? null);
  if (left === undefined) return recorded;
  return recorded === undefined || left.lastAt >= recorded.lastAt ? left : recorded;
}

/** Stores the session; requires that no other turn of the folder runs. */
export async function keepSession(folder: string, session: Session): Promise<void> {
  const file = join(folder, LAST);
  await writeFile(`${file}.new`, JSON.stringify(toValue(session)), { mode: 0o600 });
  await rename(`${file}.new`, file);
}

/** Returns the folder of a conversation. Agents find a session only in the folder where it started. */
export function conversationFolder(tasksDir: string, conversation: string): Promise<string> {
  const isPlain = /^[A-Za-z0-9][\w-]{0,63}$/.test(conversation);
  const digest = createHash('sha256').update(conversation).digest('hex').slice(0, 32);
  return makeOwnFolder(tasksDir, '_conversations', isPlain ? conversation : `.${digest}`);
}

function readSession(value: Json): Session | undefined {
  if (!isObject(value)) return undefined;
  const { provider, id = null, turns, last_at: lastAt } = value;
  if (typeof provider !== 'string' || (typeof id !== 'string' && id !== null)) return undefined;
  return {
    provider,
    id,
    turns: typeof turns === 'number' ? turns : 0,
    lastAt: typeof lastAt === 'string' ? lastAt : '',
  };
}
