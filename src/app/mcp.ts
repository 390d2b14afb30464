import { toDuctileError, DuctileError } from '../base/errors.ts';
import type { McpOptions } from '../cli/host.ts';
import { createToolServer, type ToolServer, type ToolSelection } from '../mcp/tool-server.ts';
import { EXPAND, type ToolDescription, type ToolBackend } from '../mcp/tools.ts';
import { describeServer } from '../mcp/http-handler.ts';
import { createResultStore } from '../mcp/result-store.ts';
import { findInstallPaths } from './install-paths.ts';
import { findLocalNeed, serverNeeded } from '../cli/call-operation.ts';
import { localOwner } from '../operation/context.ts';
import { listCommands } from '../operation/offered.ts';
import { openFiles, openLocalReader } from './local-engine.ts';
import { openLocal } from './open-local.ts';
import { isObject, type JsonObject } from '../base/json.ts';
import { parseResult } from '../cli/callers.ts';
import { nameTarget, readResponseText, send, type ServerTarget } from '../cli/transport.ts';
import type { ToolResult } from '../mcp/tool-result.ts';

/**
 * Serves an agent until it leaves. Calls go to the running service, or to a ledger that is opened
 * for them. Operations on files run here.
 */
export async function runMcp(options: McpOptions): Promise<void> {
  const { serveStdioAgent } = await import('../mcp/sdk.ts');
  await serveStdioAgent(
    describeServer(findInstallPaths().version),
    createTools(options),
    options.interruption,
  );
}

function createTools({ config, isReadOnly, nouns, findTarget, isHere }: McpOptions): ToolServer {
  const store = createResultStore();
  const selection: ToolSelection = { isReadOnly, nouns };
  const files = createToolServer({
    backend: filesBackend(config),
    store,
    selection,
    places: ['files'],
  });
  const ledger = createToolServer({
    backend: ledgerBackend(config, isHere),
    store,
    selection,
    places: ['server'],
  });
  // An invalid configuration has no service; the operation that needs it reports the problem.
  const find = async (): Promise<ToolServer> => {
    const target = await findTarget().catch((thrown: unknown) => {
      if (toDuctileError(thrown).code.startsWith('CONFIG_')) return undefined;
      throw thrown;
    });
    return target === undefined ? ledger : connectTools(target, selection, ledger);
  };
  return {
    async list() {
      const own = isHere ? await files.list() : [];
      return byName([...own, ...(await (await find()).list())]);
    },
    async call(name, given) {
      if (name === EXPAND && ledger.hasResult(given)) return ledger.call(name, given);
      const own = isHere ? await files.list() : [];
      const isOwn = name !== EXPAND && own.some((tool) => tool.name === name);
      return (isOwn ? files : await find()).call(name, given);
    },
    fail: (error) => ledger.fail(error),
    hasResult: (given) => ledger.hasResult(given),
  };
}

function byName(tools: readonly ToolDescription[]): ToolDescription[] {
  return [...new Map(tools.map((tool) => [tool.name, tool])).values()];
}

/** Runs operations on the configuration's files, even if the configuration is invalid. */
function filesBackend(config: string | undefined): ToolBackend {
  return {
    principal: localOwner(),
    commands: () => Promise.resolve([]),
    run: (operation, input, key) => {
      refuseKey(key);
      return openFiles(config).caller.call(operation.name, input);
    },
  };
}

/** Opens the ledger for each request while no service runs, so that one can start at any time. */
function ledgerBackend(config: string | undefined, isHere: boolean): ToolBackend {
  return {
    principal: localOwner(),
    commands: () => (isHere ? readCommands(config) : Promise.resolve([])),
    async run(operation, input, key) {
      const { name, effect, needs } = operation;
      if (needs === 'server' || !isHere) throw serverNeeded(name.replace('.', ' '));
      refuseKey(key);
      const connection = await openLocal(config, findLocalNeed({ effect, needs }, input));
      try {
        return await connection.caller.call(name, input);
      } finally {
        await connection.close();
      }
    },
  };
}

/** Returns no commands for an invalid configuration; operations that need it report the problem. */
async function readCommands(config: string | undefined) {
  const reader = await openLocalReader(config).catch(() => undefined);
  if (reader === undefined) return [];
  try {
    return listCommands(reader.context);
  } finally {
    await reader.close();
  }
}

/** Refuses an idempotency key: no service would remember it. */
function refuseKey(key: string | undefined): void {
  if (key === undefined) return;
  throw new DuctileError(
    'INPUT_INVALID',
    'an idempotency_key needs a service, and none runs here',
    {
      place: 'idempotency_key',
      hint: 'Remove it, or start the service with `ductile system start`.',
    },
  );
}

/** Uses the tools of a service; `own` formats errors on the way to it. */
function connectTools(target: ServerTarget, selection: ToolSelection, own: ToolServer): ToolServer {
  const path = pathOf(selection);
  const ask = async (method: string, params: JsonObject): Promise<JsonObject> => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const headers = { accept: 'application/json, text/event-stream' };
    const response = await send(target, { method: 'POST', path, body, headers });
    const answer = parseResult(target, response, await readResponseText(target, response));
    if (isObject(answer['result'])) return answer['result'];
    const message = JSON.stringify(answer['error'] ?? 'the response has no result');
    throw new DuctileError('SERVER_FOREIGN', `the server sent an unexpected response: ${message}`, {
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
