import { realpathSync } from 'node:fs';
import { readHomeDirectory } from '../base/account.ts';
import { toDuctileError } from '../base/errors.ts';
import type { CliHost } from '../cli/host.ts';
import type { ControlSocket } from '../cli/transport.ts';
import { findConfig } from '../config/find.ts';
import { rehearse, watch } from './extras.ts';
import { findInstallPaths } from './install-paths.ts';
import { locateState, openLocal } from './open-local.ts';

/** Returns the named configuration and the one in use, if they are different files. */
function findOtherConfig(
  given: string | undefined,
  used: string | undefined,
): ControlSocket['otherConfig'] {
  if (used === undefined) return undefined;
  try {
    const { env } = process;
    const { file } = findConfig({ given, env, home: readHomeDirectory(), cwd: process.cwd() });
    const isSame = file === used || realpathSync(file) === realpathSync(used);
    return isSame ? undefined : { asked: file, used };
  } catch {
    // The file that the service was started with may be gone, or there is none here.
    return undefined;
  }
}

/** Functions of the whole program for its command line; each part is loaded on demand. */
export const cliHost: CliHost = {
  async start(config) {
    const { runServer } = await import('./server.ts');
    return runServer(config);
  },
  async demo(options) {
    const { runDemo } = await import('./demo.ts');
    return runDemo(options);
  },
  rehearse,
  watch,
  async restore(config, from, dryRun) {
    const { restore } = await import('./local-engine.ts');
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
  findDocs() {
    const { docs, docsSource } = findInstallPaths();
    return docsSource ?? docs;
  },
  async findSocket(given) {
    const { findSocket, readControlKey, readSocketConfig, describeSocketOwner } =
      await import('../http/control-socket.ts');
    const look = async (directory: string): Promise<ControlSocket | undefined> => {
      const owner = describeSocketOwner(directory);
      const socketPath = await findSocket(owner);
      if (socketPath === undefined) return undefined;
      const otherConfig = findOtherConfig(given, readSocketConfig(socketPath, owner));
      return { socketPath, key: readControlKey(socketPath, owner), otherConfig };
    };
    try {
      return await look((await locateState(given)).dir);
    } catch (thrown) {
      // A running service can be called although its files were broken after it read them.
      if (toDuctileError(thrown).code !== 'CONFIG_INVALID') throw thrown;
      const { guessStateDirectory } = await import('../config/state.ts');
      const found = await look(guessStateDirectory(given));
      if (found === undefined) throw thrown;
      return found;
    }
  },
};
