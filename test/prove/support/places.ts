/** Slots for servers: in each, a server is started, killed, and started again. */
import type { Server } from '../../support/crash/server.ts';
import type { CrashTest } from '../../support/crash/crash-test.ts';
import type { Journal } from './journal.ts';

export interface Places {
  /** The last server that was started in each place. */
  readonly hosts: readonly Server[];
  /** All servers so far. */
  readonly servers: readonly Server[];
  /**
   * Starts a server in a slot; one that kills itself at an armed point is followed by another. The
   * program is that of the last server there, by default.
   */
  launch(place: number, probe?: string, program?: string): void;
  /** Resolves to the server of a slot once it is ready. */
  ready(place: number): Promise<Server>;
  kill(place: number): Promise<void>;
  /** From now on no server kills itself; resolves when all are ready. */
  settle(): Promise<void>;
}

/** `configs` has the configuration of the host in each place. */
export function makePlaces(
  crashTest: CrashTest,
  configs: readonly string[],
  journal: Journal,
): Places {
  const hosts: Server[] = [];
  const servers: Server[] = [];
  const armed = new Set<Server>();
  const programs: (string | undefined)[] = [];
  const launch: Places['launch'] = (place, probe, program = programs[place]) => {
    programs[place] = program;
    const server = crashTest.launch(probe, configs[place], program);
    hosts[place] = server;
    servers.push(server);
    if (probe?.includes(':kill') === true) armed.add(server);
    void server.exited.then(() => {
      if (!armed.delete(server)) return;
      journal.note('killsAtPoints', Date.now(), 'death');
      launch(place);
    });
  };
  const hostAt = (place: number): Server => {
    const server = hosts[place];
    if (server === undefined) throw new Error(`there is nobody in place ${place}`);
    return server;
  };
  const ready: Places['ready'] = async (place) => {
    for (;;) {
      const server = hostAt(place);
      const isReady = await server.ready.then(
        () => true,
        () => false,
      );
      if (isReady && server.isAlive) return server;
      // The follower of a server that killed itself exists in the same tick.
      if (server === hostAt(place)) throw new Error(`a server ended: ${server.complaints}`);
    }
  };
  const kill: Places['kill'] = async (place) => {
    const server = hostAt(place);
    armed.delete(server);
    await journal.during('kills', () => server.kill(), 'death');
  };
  return {
    hosts,
    servers,
    launch,
    ready,
    kill,
    async settle() {
      for (const place of hosts.keys()) {
        if (!armed.has(await ready(place))) continue;
        await kill(place);
        launch(place);
        await ready(place);
      }
    },
  };
}
