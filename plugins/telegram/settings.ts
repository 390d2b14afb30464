/** Settings: the bot, its chats, and the allowed users. */
import { tmpdir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import type { Fields, Json } from '../../sdk/typescript/ductile-plugin.ts';

export interface Settings {
  readonly bot: Bot;
  /** Chats for messages without a conversation. */
  readonly chats: readonly string[];
  /** Chat of each conversation whose name differs from its chat id. */
  readonly conversations: ReadonlyMap<string, string>;
  readonly allowedUsers: ReadonlySet<string>;
  readonly template: string | undefined;
  readonly parseMode: string | undefined;
  /** Time that one poll waits for a message. */
  readonly waitMs: number;
  readonly timeoutMs: number;
  readonly journalDir: string;
}

export interface Bot {
  /** The number before the colon, which isn't secret. */
  readonly id: string;
  readonly token: string;
  readonly apiUrl: string;
}

const PARSE_MODES = ['HTML', 'Markdown', 'MarkdownV2'];
const CHAT = /^(-?\d{1,19}|@[A-Za-z]\w{4,63})$/;

export function readSettings(config: Fields): Settings {
  const parseMode = config.text('parse_mode');
  if (parseMode !== undefined && !PARSE_MODES.includes(parseMode)) {
    throw config.refuse('parse_mode', `must be one of ${PARSE_MODES.join(', ')}`);
  }
  return {
    bot: readBot(config),
    chats: readIds(config, 'chats', CHAT),
    conversations: readConversations(config),
    allowedUsers: new Set(readIds(config, 'allowed_users', /^\d{1,19}$/)),
    template: config.text('template'),
    parseMode,
    waitMs: config.whole('wait_s', 20, 0, 50) * 1000,
    timeoutMs: config.whole('timeout_ms', 15_000, 1, 600_000),
    journalDir: readJournalDir(config),
  };
}

/** Returns the configured chat of a conversation, or the chat with that id. */
export function chatOf(conversation: string, settings: Settings): string | undefined {
  const named = settings.conversations.get(conversation);
  if (named !== undefined) return named;
  const known = [...settings.chats, ...settings.allowedUsers];
  return known.includes(conversation) ? conversation : undefined;
}

function readBot(config: Fields): Bot {
  const token = config.text('token');
  const id = /^(\d{1,19}):[\w-]{10,}$/.exec(token ?? '')?.[1];
  if (token === undefined || id === undefined) {
    throw config.refuse('token', 'must be what @BotFather gave, such as 123456:ABC…');
  }
  const written = config.text('api_url') ?? 'https://api.telegram.org';
  const url = URL.parse(written);
  const isWeb = url?.protocol === 'https:' || url?.protocol === 'http:';
  if (url === null || !isWeb || url.username !== '' || url.search !== '' || url.hash !== '') {
    throw config.refuse('api_url', 'must be an http or https address without user or query');
  }
  return { id, token, apiUrl: url.href.replace(/\/+$/, '') };
}

function readIds(config: Fields, key: string, pattern: RegExp): string[] {
  const listed = config.get(key) ?? [];
  if (!Array.isArray(listed)) throw config.refuse(key, 'must be a list of ids');
  return listed.map((value) => toId(config, key, value, pattern));
}

function readConversations(config: Fields): ReadonlyMap<string, string> {
  const key = 'conversations';
  const entries = Object.entries(config.mapping(key));
  return new Map(entries.map(([name, value]) => [name, toId(config, key, value, CHAT)]));
}

function toId(config: Fields, key: string, value: Json, pattern: RegExp): string {
  const text =
    typeof value === 'string' ? value : Number.isSafeInteger(value) ? `${Number(value)}` : '';
  if (pattern.test(text)) return text;
  throw config.refuse(key, `has ${JSON.stringify(value)}, which is no id of Telegram`);
}

function readJournalDir(config: Fields): string {
  const path = config.text('journal_dir');
  if (path === undefined) {
    return join(tmpdir(), `ductile-telegram-${process.getuid?.() ?? 'user'}`);
  }
  if (!isAbsolute(path)) throw config.refuse('journal_dir', 'must be an absolute path');
  return path;
}
