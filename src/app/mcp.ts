import { toDuctileError } from '../base/errors.ts';
import type { McpOptions } from '../cli/host.ts';
import { createToolServer, type ToolServer, type ToolSelection } from '../mcp/tool-server.ts';
import { EXPAND, type ToolDescription } from '../mcp/tool.ts';
import { describeServer } from '../mcp/http-handler.ts';
import { createResultStore } from '../mcp/result-store.ts';
import { filesBackend, ledgerBackend } from './mcp-local.ts';
import { connectTools } from './mcp-remote.ts';
import { findPlace } from './install-paths.ts';

/**
 * Answers an agent until it leaves. What is asked goes to the server that runs then, or the ledger is
 * opened for it; what is about the files of the configuration is done here.
 */
export async function runMcp(options: McpOptions): Promise<void> {
  const { serveStdioAgent } = await import('../mcp/sdk.ts');
  await serveStdioAgent(describeServer(findPlace().version), createTools(options), options.over);
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
  // A configuration that cannot be read has no server; what is wrong is told by what needs it.
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
