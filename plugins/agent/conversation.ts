/** Conversations go on: the session of each is remembered, and one of its turns runs at a time. */
import { createHash } from 'node:crypto';
import { readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
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
  /** Null when the provider names no sessions, so that each turn begins one. */
  readonly id: string | null;
  readonly turns: number;
  readonly lastAt: string;
}

const PREFIX = 'session:';
const LOCK = '.turn';
const LAST = '.session';
const LOCK_RENEW_MS = 1000;
/** A lock that nobody renewed for so long was left by a process that is gone. */
const LOCK_STALE_MS = 15_000;
const LOCK_LOOK_MS = 100;

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
 * The newer of the session that a job was told and the one that the last turn left in the folder. A
 * job is told the state of the moment when it was claimed, and others may have ended since.
 */
export async function latestSession(
  folder: string,
  told: Session | undefined,
): Promise<Session | undefined> {
  const text = await readFile(join(folder, LAST), 'utf8').catch(() => '');
  const left = readSession(parseJson(text) ?? null);
  if (left === undefined || told === undefined) return left ?? told;
  return left.lastAt >= told.lastAt ? left : told;
}

/** Only while no other turn of the folder runs. */
export async function keepSession(folder: string, session: Session): Promise<void> {
  const file = join(folder, LAST);
  await writeFile(`${file}.new`, JSON.stringify(toValue(session)), { mode: 0o600 });
  await rename(`${file}.new`, file);
}

/** Always the same one: agents find a session again only in the folder where it began. */
export function conversationFolder(tasksDir: string, conversation: string): Promise<string> {
  const isPlain = /^[A-Za-z0-9][\w-]{0,63}$/.test(conversation);
  const digest = createHash('sha256').update(conversation).digest('hex').slice(0, 32);
  return makeOwnFolder(tasksDir, '_conversations', isPlain ? conversation : `.${digest}`);
}

/**
 * Runs while no other turn of the same folder does, or not at all when it had to wait for longer.
 * Jobs of one conversation are kept apart before they start; this is for heartbeats and whoever
 * starts a turn by hand.
 */
export async function alone<T>(
  folder: string,
  waitMs: number,
  run: () => Promise<T>,
): Promise<T | 'busy'> {
  const file = join(folder, LOCK);
  const until = Date.now() + waitMs;
  while (!(await take(file))) {
    if (Date.now() >= until) return 'busy';
    await sleep(LOCK_LOOK_MS);
  }
  const renewal = setInterval(() => {
    const now = new Date();
    // Whoever removed it has taken the turn; there is nothing to be done about that here.
    utimes(file, now, now).catch(() => undefined);
  }, LOCK_RENEW_MS);
  try {
    return await run();
  } finally {
    clearInterval(renewal);
    await rm(file, { force: true });
  }
}

async function take(file: string): Promise<boolean> {
  try {
    await writeFile(file, '', { flag: 'wx', mode: 0o600 });
    return true;
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
  }
  const renewedAt = await stat(file).then(
    ({ mtimeMs }) => mtimeMs,
    () => undefined,
  );
  const isStale = renewedAt !== undefined && Date.now() - renewedAt > LOCK_STALE_MS;
  if (isStale) await rm(file, { force: true });
  return false;
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
