import { compact } from '../base/json.ts';
import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { chooseLogFormat, makeLogger, type Log } from '../base/log.ts';
import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/load.ts';
import { requireKnownSchema } from '../ledger/migrate.ts';
import { openInstance, type Instance, type ReadBlueprint } from './instance.ts';
import { findServiceManager } from './systemd.ts';
import { toLoopbackUrl } from '../cli/ui.ts';
import { listenApi, listenControl, listenWebhooks } from '../http/listeners.ts';
import type { HttpListener } from '../http/listen.ts';
import { describeSocketOwner } from '../http/control-socket.ts';
import { createMcpHttpHandler } from '../mcp/http-handler.ts';
import { localOwner, type Context } from '../operation/context.ts';
import { findInstallPaths } from './install-paths.ts';

/** Service process that accepts requests: engine, control socket and listeners. */
export interface Server {
  readonly instance: Instance;
  readonly surfaces: Surfaces;
  close(): Promise<void>;
}

/**
 * Runs the service in the foreground until it is stopped, or until a newer program has changed the
 * ledger. Then it finishes its work and ends with the error with which it would refuse to start.
 */
export async function runServer(given: string | undefined): Promise<number> {
  const config = loadConfig({ given });
  let activeConfig = (): Config => config;
  const log = makeServiceLog(() => activeConfig());
  const manager = findServiceManager({ env: process.env, log: log.child('systemd') });
  const stop = waitForStopSignal();
  const reloads = watchReloadSignal();
  let server: Server;
  try {
    server = await openServer(config, log, stop);
  } catch (error) {
    if (!(error instanceof DuctileError) || error.code !== 'STOPPING') throw error;
    log.info('stopped before the service was ready', { signal: await stop });
    await manager.stopping();
    return 0;
  }
  const { surfaces, instance } = server;
  activeConfig = () => instance.engine.config;
  const { control, api, webhooks } = surfaces;
  log.info('ductile is ready', {
    pid: process.pid,
    ...compact({ control, api, webhooks }),
    ledger: instance.engine.ledger.kind,
    plugins: instance.engine.catalog.plugins.size,
    spawner: instance.engine.status().spawner,
  });
  instance.engine.watchReloads((isReloading) => {
    if (isReloading) manager.reloading();
    else manager.ready();
  });
  reloads.begin(() => reloadNow(instance));
  manager.ready();
  manager.watch(() => instance.engine.isSound());
  const reason = await Promise.race([stop, instance.engine.outgrown]);
  if (typeof reason === 'string') log.info('stopping', { signal: reason });
  else log.warn('stopping: a newer Ductile has changed the database schema', { schema: reason });
  const notified = manager.stopping();
  await server.close();
  await notified;
  log.info('stopped');
  if (typeof reason === 'number') requireKnownSchema(reason);
  return 0;
}

function makeServiceLog(activeConfig: () => Config): Log {
  const { logFormat } = activeConfig().service;
  const format = logFormat === 'auto' ? chooseLogFormat(process.stdout) : logFormat;
  return makeLogger({ level: () => activeConfig().service.logLevel, format });
}

/** The outcome is in the log and in the status, because a signal has no caller. */
async function reloadNow({ engine, log }: Instance): Promise<void> {
  try {
    await engine.direct({ type: 'config.reload', params: {}, actor: 'signal:SIGHUP' });
  } catch (error) {
    log.error('the reload failed', { error });
  }
}

/**
 * Starts everything or nothing: parts that were opened before a failure are closed. A stop during
 * the start is such a failure, STOPPING. If the database ends a connection, as in a failover, the
 * start is repeated.
 */
export async function openServer(
  config: Config,
  log: Log,
  stop?: Promise<unknown>,
  read?: ReadBlueprint,
): Promise<Server> {
  for (let restarts = 0; ; restarts += 1) {
    try {
      return await openOnce(config, log, stop, read);
    } catch (error) {
      if (restarts === limits.startRetriesMax || !isLostConnection(error)) throw error;
      log.warn('the database ended a connection during the start; starting again', { error });
    }
  }
}

/** SQLSTATEs of a shutdown or crash of the server, and errors of a closed stream. */
const ENDED_CODES = /^(57P01|57P02|08006|ECONNRESET|EPIPE)$/;
/** Messages of the driver for both, at the time and when the connection is used again. */
const ENDED_MESSAGES = /terminated unexpectedly|is not queryable/;

/**
 * Checks whether PostgreSQL accepted a connection and then ended it, so that the start can be repeated.
 * It is false if no connection could be made: then the operator gets the error without a delay.
 */
export function isLostConnection(error: unknown): boolean {
  if (!(error instanceof DuctileError) || error.code !== 'LEDGER_UNAVAILABLE') return false;
  const { cause } = error;
  if (!(cause instanceof Error)) return false;
  const { code = '' } = cause as { readonly code?: string };
  return ENDED_CODES.test(code) || (code === '' && ENDED_MESSAGES.test(cause.message));
}

async function openOnce(
  config: Config,
  log: Log,
  stop: Promise<unknown> | undefined,
  read: ReadBlueprint | undefined,
): Promise<Server> {
  const starting = new AbortController();
  const { signal } = starting;
  let isReady = false;
  void stop?.then(() => {
    if (!isReady) starting.abort();
  });
  let instance: Instance | undefined;
  let surfaces: Surfaces | undefined;
  try {
    const opened = (instance = await openInstance(config, log, signal, read));
    signal.throwIfAborted();
    await refuseUnsafe(opened);
    signal.addEventListener('abort', () => void opened.engine.stop());
    surfaces = await openSurfaces(opened);
    await opened.engine.start();
    isReady = true;
    return { instance: opened, surfaces, close: () => closeServer(opened, surfaces) };
  } catch (error) {
    if (instance !== undefined) await closeServer(instance, surfaces);
    if (!signal.aborted) throw error;
    throw new DuctileError('STOPPING', 'stopped before the service was ready', { cause: error });
  }
}

/** With tenants, refuses to start if their plugins could read each other's data. */
async function refuseUnsafe({ engine }: Instance): Promise<void> {
  if ((await engine.ledger.tenants.list()).length > 0) engine.refuseUnisolated();
}

async function closeServer(instance: Instance, surfaces: Surfaces | undefined): Promise<void> {
  try {
    // The engine stops first, so that clients can watch it; it accepts nothing new meanwhile.
    await instance.close();
  } finally {
    await surfaces?.close();
  }
}

/**
 * Runs a reload for each SIGHUP. A signal during startup triggers one reload afterwards; signals
 * during a reload trigger one more.
 */
export function watchReloadSignal(): { begin(reload: () => Promise<void>): void } {
  let isRequested = false;
  let isBusy = false;
  let work: (() => Promise<void>) | undefined;
  const run = async (): Promise<void> => {
    if (isBusy || work === undefined) return;
    isBusy = true;
    while (isRequested) {
      isRequested = false;
      await work();
    }
    isBusy = false;
  };
  process.on('SIGHUP', () => {
    isRequested = true;
    void run();
  });
  return {
    begin(reload) {
      work = reload;
      void run();
    },
  };
}

/** Resolves with the signal that stops this process. */
export function waitForStopSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      let isRepeated = false;
      process.on(signal, () => {
        // A second signal ends the process at once; the ledger recovers interrupted work.
        if (isRepeated) process.exit(1);
        isRepeated = true;
        resolve(signal);
      });
    }
  });
}

/** Addresses of a running service. */
interface Surfaces {
  readonly control: string;
  /** Undefined if the API is disabled. */
  readonly api: string | undefined;
  /** Undefined if webhooks have no listener of their own. */
  readonly webhooks: string | undefined;
  close(): Promise<void>;
}

async function openSurfaces({ config, engine, log }: Instance): Promise<Surfaces> {
  const context: Context = { engine, principal: localOwner(), submittedBy: 'cli' };
  const httpLog = log.child('http');
  const { ui, docs, version } = findInstallPaths();
  const mcp = createMcpHttpHandler(version);
  const own = config.state.kind === 'postgres' ? { processId: engine.processId } : {};
  const control = await listenControl(
    { ...describeSocketOwner(config.state.dir), ...own },
    context,
    httpLog,
    { mcp, docs },
  );
  const listeners: HttpListener[] = [control];
  const open = async (opening: Promise<HttpListener>): Promise<string> => {
    const listener = await opening;
    listeners.push(listener);
    return `http://${listener.address}`;
  };
  const closeAll = async (): Promise<void> => {
    await Promise.all(listeners.map((listener) => listener.close()));
  };
  let [api, webhooks]: (string | undefined)[] = [];
  try {
    if (config.api.enabled) {
      api = await open(listenApi({ ...config.api, ui, docs, mcp }, engine, httpLog));
    }
    if (config.webhooks.enabled) {
      await engine.webhooks.requireSecrets();
      webhooks = await open(listenWebhooks(config.webhooks, engine, log.child('webhooks')));
    }
  } catch (error) {
    await closeAll();
    throw error;
  }
  engine.reach.api = api && toLoopbackUrl(api);
  engine.reach.webhooks = webhooks && toLoopbackUrl(webhooks);
  return {
    control: control.address,
    api,
    webhooks,
    close: closeAll,
  };
}
