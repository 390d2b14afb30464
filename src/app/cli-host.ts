import { toDuctileError } from '../base/errors.ts';
import type { CliHost } from '../cli/host.ts';
import type { FoundSocket } from '../cli/transport.ts';
import { openLocal } from './open-local.ts';

/** What only the whole program can do for its command line; each part is loaded when it is needed. */
export const cliHost: CliHost = {
  async start(config) {
    const { runServer } = await import('./server.ts');
    return runServer(config);
  },
  async demo(options) {
    const { runDemo } = await import('./demo.ts');
    return runDemo(options);
  },
  async rehearse(config, directory) {
    const { runRehearsal } = await import('./prove/host.ts');
    return runRehearsal(config, directory);
  },
  async restore(config, from, dryRun) {
    const { restore } = await import('./local.ts');
    return restore(config, from, dryRun);
  },
  async import(config, from, dryRun) {
    const { importAll } = await import('./transfer.ts');
    return importAll(config, from, dryRun);
  },
  async migrate(config, dryRun) {
    const { migrateAll } = await import('./transfer.ts');
    return migrateAll(config, dryRun);
  },
  async mcp(options) {
    const { runMcp } = await import('./mcp.ts');
    return runMcp(options);
  },
  openLocal,
  async findSocket(given) {
    const { locateState } = await import('./locate.ts');
    const { findSocket, readControlKey, socketOwner } = await import('../http/socket.ts');
    const look = async (directory: string): Promise<FoundSocket | undefined> => {
      const owner = socketOwner(directory);
      const socketPath = await findSocket(owner);
      if (socketPath === undefined) return undefined;
      return { socketPath, key: readControlKey(socketPath, owner) };
    };
    try {
      return await look((await locateState(given)).dir);
    } catch (thrown) {
      // A service that runs can be asked although its files were broken since it read them.
      if (toDuctileError(thrown).code !== 'CONFIG_INVALID') throw thrown;
      const { guessStateDirectory } = await import('../config/state.ts');
      const found = await look(guessStateDirectory(given));
      if (found === undefined) throw thrown;
      return found;
    }
  },
};
