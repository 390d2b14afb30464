import type { IncomingHttpHeaders } from 'node:http';
import { DuctileError } from '../base/errors.ts';
import { isObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import type { Context } from '../operation/context.ts';
import { invoke } from '../operation/invoke.ts';
import { listCommands } from '../access/offered.operations.ts';
import { answerOnce } from '../operation/idempotent.ts';
import { openDesk, type Wish } from './tool-server.ts';
import { greet } from './greeting.ts';
import { makeKept, type Kept } from './result-store.ts';
import { isShownOnce } from './operation-tools.ts';
import type { WebAnswer } from './sdk.ts';
import type { Backend } from './tool.ts';

/** One message of an agent whom somebody has let in. */
export interface Asked {
  readonly context: Context;
  readonly headers: IncomingHttpHeaders;
  readonly message: unknown;
  readonly wish: Wish;
}

/** Answers agents over HTTP; what it keeps for them is in memory. */
export function makeMcp(version: string): (asked: Asked) => Promise<WebAnswer> {
  const greeting = greet(version);
  const kept: Kept = makeKept();
  let sdk: Promise<typeof import('./sdk.ts')> | undefined;
  return async ({ context, headers, message, wish }) => {
    // One request could carry thousands; none of the revisions that are in use has this.
    if (!isObject(message)) {
      throw new DuctileError('REQUEST_INVALID', 'the body must be one JSON-RPC message', {
        place: 'body',
        hint: 'Send each message in a request of its own.',
      });
    }
    sdk ??= import('./sdk.ts');
    const { answerPost } = await sdk;
    const desk = openDesk({ backend: backendOf(context), kept, wish, places: ['server'] });
    return answerPost(greeting, desk, { headers: toHeaders(headers), message });
  };
}

function backendOf(context: Context): Backend {
  return {
    principal: context.principal,
    commands: () => Promise.resolve(listCommands(context)),
    async run(operation, input, key) {
      if (key === undefined) return invoke(operation, context, input);
      const route = `MCP ${operation.name}`;
      const asked = Buffer.from(JSON.stringify(input));
      const isSecret = isShownOnce(operation);
      const keyed = { key, route, asked, isSecret, isDryRun: input['dry_run'] === true };
      const { text } = await answerOnce(context, keyed, async (as) => ({
        status: 200,
        text: JSON.stringify(await invoke(operation, as, input)),
      }));
      return parseJson(text) as Record<string, unknown>;
    },
  };
}

/** What the protocol reads; the token is not its business. */
const READ = /^(accept|content-type|mcp-[\w-]+)$/;

function toHeaders(headers: IncomingHttpHeaders): Headers {
  const read = Object.entries(headers).filter(([name]) => READ.test(name));
  return new Headers(read.map(([name, value]) => [name, String(value)]));
}
