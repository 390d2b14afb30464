import type { CliHost } from '../cli/host.ts';

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
  async restore(config, from) {
    const { restore } = await import('./local.ts');
    return restore(config, from);
  },
  async import(config, from, dryRun) {
    const { importAll } = await import('./transfer.ts');
    return importAll(config, from, dryRun);
  },
  async migrate(config) {
    const { migrateAll } = await import('./transfer.ts');
    return migrateAll(config);
  },
  async openLocal(config, need) {
    if (need === 'files') {
      const { openFiles } = await import('./files.ts');
      return openFiles(config);
    }
    if (need === 'ledger') {
      const { openLookout } = await import('./lookout.ts');
      const { locateState } = await import('./locate.ts');
      return openLookout(await locateState(config));
    }
    const { openToRead, openToWrite } = await import('./local.ts');
    return need === 'writing' ? openToWrite(config) : openToRead(config);
  },
  async findSocket(given) {
    const { locateState } = await import('./locate.ts');
    const { findSocket, readControlKey, socketOwner } = await import('../http/socket.ts');
    const owner = socketOwner((await locateState(given)).dir);
    const socketPath = await findSocket(owner);
    if (socketPath === undefined) return undefined;
    return { socketPath, key: readControlKey(socketPath, owner) };
  },
};
