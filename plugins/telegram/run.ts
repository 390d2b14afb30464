#!/usr/bin/env node
/** Sends messages to Telegram, and receives messages of allowed users. */
import {
  runPlugin,
  isObject,
  type Answer,
  type Request,
} from '../../sdk/typescript/ductile-plugin.ts';
import { call } from './bot-api.ts';
import { handle } from './handle.ts';
import { readSettings } from './settings.ts';
import { poll } from './updates.ts';

await runPlugin({ handle, poll, health });

async function health({ config, msLeft }: Request): Promise<Answer> {
  const { bot, timeoutMs, chats, allowedUsers } = readSettings(config);
  const me = await call(bot, 'getMe', {}, { msLeft, timeoutMs });
  const name = isObject(me) && typeof me['username'] === 'string' ? `@${me['username']}` : bot.id;
  return { result: `${name} tells ${chats.length} chats and hears ${allowedUsers.size} people` };
}
