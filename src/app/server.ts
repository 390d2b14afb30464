import { autoFormat, makeLogger, type Log } from '../base/log.ts';
import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/load.ts';
import { openInstance, type Instance } from './instance.ts';
import { openSurfaces, type Surfaces } from './surfaces.ts';

/** A process of the runtime that answers: engine, control socket and health. */
export interface Server {
  readonly instance: Instance;
  readonly surfaces: Surfaces;
  close(): Promise<void>;
}

/** Runs the service in the foreground until it is told to stop. */
export async function runServer(given: string | undefined): Promise<number> {
  const config = loadConfig({ given });
  const log = makeServiceLog(config);
  const stop = stopRequested();
  const server = await openServer(config, log);
  const { surfaces, instance } = server;
  log.info('ductile is ready', {
    pid: process.pid,
    control: surfaces.control,
    ...(surfaces.health === undefined ? {} : { health: surfaces.health }),
    ledger: instance.engine.ledger.kind,
    plugins: instance.engine.catalog.plugins.size,
    spawner: instance.engine.status().spawner,
  });
  const signal = await stop;
  log.info('stopping', { signal });
  await server.close();
  log.info('stopped');
  return 0;
}

function makeServiceLog({ service }: Config): Log {
  const format = service.logFormat === 'auto' ? autoFormat(process.stdout) : service.logFormat;
  return makeLogger({ level: service.logLevel, format });
}

/** Starts everything or nothing: what was opened before a failure is closed again. */
export async function openServer(config: Config, log: Log): Promise<Server> {
  const instance = await openInstance(config, log);
  let surfaces: Surfaces | undefined;
  try {
    surfaces = await openSurfaces(instance);
    await instance.engine.start();
    return { instance, surfaces, close: () => closeServer(instance, surfaces) };
  } catch (error) {
    await closeServer(instance, surfaces);
    throw error;
  }
}

async function closeServer(instance: Instance, surfaces: Surfaces | undefined): Promise<void> {
  try {
    // The engine first, so that people can watch it stop; nothing new is accepted meanwhile.
    await instance.close();
  } finally {
    await surfaces?.close();
  }
}

/** Resolves with the name of the signal that asks this process to stop. */
export function stopRequested(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      let asked = false;
      process.on(signal, () => {
        // Asking twice means now; the ledger recovers what is cut off.
        if (asked) process.exit(1);
        asked = true;
        resolve(signal);
      });
    }
  });
}
