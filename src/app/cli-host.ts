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
  async openLocal(config) {
    const { openLocal } = await import('./local.ts');
    return openLocal(config);
  },
  async findSocket(given) {
    const { loadConfig } = await import('../config/load.ts');
    const { findSocket, socketOwner } = await import('../http/socket.ts');
    return findSocket(socketOwner(loadConfig({ given }).state.dir));
  },
};
