import { DuctileError } from '../base/errors.ts';
import { needOf, serverNeeded } from '../cli/ask.ts';
import type { ToolBackend } from '../mcp/tool.ts';
import { ownerOf } from '../operation/context.ts';
import { listCommands } from '../access/offered.operations.ts';
import { localActor } from './actor.ts';
import { openFiles } from './local-files.ts';
import { openToRead } from './local-engine.ts';
import { openLocal } from './open-local.ts';

/** What works on the files of the configuration, also when it cannot be used. */
export function filesBackend(config: string | undefined): ToolBackend {
  return {
    principal: ownerOf(localActor()),
    commands: () => Promise.resolve([]),
    run: (operation, input, key) => {
      refuseKey(key);
      return openFiles(config).caller.call(operation.name, input);
    },
  };
}

/** The ledger, opened for each request, as long as no server runs: one that starts is not kept out. */
export function ledgerBackend(config: string | undefined, isHere: boolean): ToolBackend {
  return {
    principal: ownerOf(localActor()),
    commands: () => (isHere ? readCommands(config) : Promise.resolve([])),
    async run(operation, input, key) {
      const { name, effect, needs } = operation;
      if (needs === 'server' || !isHere) throw serverNeeded(name.replace('.', ' '));
      refuseKey(key);
      const door = await openLocal(config, needOf({ effect, needs }, input));
      try {
        return await door.caller.call(name, input);
      } finally {
        await door.close();
      }
    },
  };
}

/** Of a configuration that cannot be read there are none; what is wrong is told by what needs it. */
async function readCommands(config: string | undefined) {
  const door = await openToRead(config).catch(() => undefined);
  if (door === undefined) return [];
  try {
    return listCommands(door.context);
  } finally {
    await door.close();
  }
}

/** Nobody would be there to remember it. */
function refuseKey(key: string | undefined): void {
  if (key === undefined) return;
  throw new DuctileError(
    'INPUT_INVALID',
    'an idempotency_key is for a server, and none runs here',
    {
      place: 'idempotency_key',
      hint: 'Leave it away, or start the server with `ductile system start`.',
    },
  );
}
