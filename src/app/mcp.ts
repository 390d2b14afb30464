import { toDuctileError } from '../base/errors.ts';
import type { McpOptions } from '../cli/host.ts';
import { openDesk, type Desk, type Wish } from '../mcp/tool-server.ts';
import { EXPAND } from '../mcp/expand-tool.ts';
import { greet } from '../mcp/greeting.ts';
import { makeKept } from '../mcp/result-store.ts';
import type { ToolDescription } from '../mcp/tool.ts';
import { filesBackend, ledgerBackend } from './mcp-local.ts';
import { remoteDesk } from './mcp-remote.ts';
import { findPlace } from './install-paths.ts';

/**
 * Answers an agent until it leaves. What is asked goes to the server that runs then, or the ledger is
 * opened for it; what is about the files of the configuration is done here.
 */
export async function runMcp(options: McpOptions): Promise<void> {
  const { answerStdio } = await import('../mcp/sdk.ts');
  await answerStdio(greet(findPlace().version), makeDesk(options), options.over);
}

function makeDesk({ config, isReadOnly, nouns, findTarget, isHere }: McpOptions): Desk {
  const kept = makeKept();
  const wish: Wish = { isReadOnly, nouns };
  const files = openDesk({ backend: filesBackend(config), kept, wish, places: ['files'] });
  const ledger = openDesk({
    backend: ledgerBackend(config, isHere),
    kept,
    wish,
    places: ['server'],
  });
  // A configuration that cannot be read has no server; what is wrong is told by what needs it.
  const find = async (): Promise<Desk> => {
    const target = await findTarget().catch((thrown: unknown) => {
      if (toDuctileError(thrown).code.startsWith('CONFIG_')) return undefined;
      throw thrown;
    });
    return target === undefined ? ledger : remoteDesk(target, wish, ledger);
  };
  return {
    async list() {
      const own = isHere ? await files.list() : [];
      return byName([...own, ...(await (await find()).list())]);
    },
    async call(name, given) {
      if (name === EXPAND && ledger.holds(given)) return ledger.call(name, given);
      const own = isHere ? await files.list() : [];
      const isOwn = name !== EXPAND && own.some((tool) => tool.name === name);
      return (isOwn ? files : await find()).call(name, given);
    },
    fail: (error) => ledger.fail(error),
    holds: (given) => ledger.holds(given),
  };
}

function byName(tools: readonly ToolDescription[]): ToolDescription[] {
  return [...new Map(tools.map((tool) => [tool.name, tool])).values()];
}
