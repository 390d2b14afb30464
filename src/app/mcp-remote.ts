import { DuctileError, toDuctileError } from '../base/errors.ts';
import { isObject, type JsonObject } from '../base/json.ts';
import { parseAnswer } from '../cli/callers.ts';
import { nameTarget, readText, send, type Target } from '../cli/transport.ts';
import type { ToolResult } from '../mcp/tool-result.ts';
import type { ToolServer, ToolSelection } from '../mcp/tool-server.ts';
import type { ToolDescription } from '../mcp/tool.ts';

/** The desk of a server, which answers for itself; `own` says what goes wrong on the way to it. */
export function connectTools(
  target: Target,
  selection: ToolSelection,
  own: ToolServer,
): ToolServer {
  const path = pathOf(selection);
  const ask = async (method: string, params: JsonObject): Promise<JsonObject> => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const headers = { accept: 'application/json, text/event-stream' };
    const response = await send(target, { method: 'POST', path, body, headers });
    const answer = parseAnswer(target, response, await readText(target, response));
    if (isObject(answer['result'])) return answer['result'];
    const message = JSON.stringify(answer['error'] ?? 'it is no answer');
    throw new DuctileError('SERVER_FOREIGN', `the server does not speak as expected: ${message}`, {
      place: nameTarget(target),
    });
  };
  return {
    async list() {
      const { tools } = await ask('tools/list', {});
      return (tools ?? []) as unknown as readonly ToolDescription[];
    },
    async call(name, given) {
      try {
        const params = { name, arguments: given as JsonObject };
        return (await ask('tools/call', params)) as unknown as ToolResult;
      } catch (thrown) {
        return own.fail(toDuctileError(thrown));
      }
    },
    fail: (error) => own.fail(error),
    hasResult: () => false,
  };
}

function pathOf({ isReadOnly, nouns }: ToolSelection): string {
  const query = new URLSearchParams({ readonly: String(isReadOnly) });
  if (nouns !== undefined) query.set('only', nouns.join(','));
  return `/mcp?${query.toString()}`;
}
