import { userInfo } from 'node:os';
import { listenControl, listenHealth } from '../http/control.ts';
import type { Listener } from '../http/listen.ts';
import { socketOwner } from '../http/socket.ts';
import type { Context } from '../operations/context.ts';
import type { Instance } from './instance.ts';

/** Where a running server can be reached. */
export interface Surfaces {
  readonly control: string;
  readonly health: string | undefined;
  close(): Promise<void>;
}

export async function openSurfaces({ config, engine, log }: Instance): Promise<Surfaces> {
  const context: Context = { engine, actor: localActor(), submittedBy: 'cli' };
  const httpLog = log.child('http');
  const own = config.state.kind === 'postgres' ? { processId: engine.processId } : {};
  const control = await listenControl(
    { ...socketOwner(config.state.dir), ...own },
    context,
    httpLog,
  );
  const listeners: Listener[] = [control];
  let health: Listener | undefined;
  try {
    if (config.api.enabled) health = await listenHealth(config.api, context, httpLog);
    if (health !== undefined) listeners.push(health);
  } catch (error) {
    await control.close();
    throw error;
  }
  return {
    control: control.address,
    health: health === undefined ? undefined : `http://${health.address}/healthz`,
    async close() {
      await Promise.all(listeners.map((listener) => listener.close()));
    },
  };
}

/** The local operator has all rights; who it was is on record. */
export function localActor(): string {
  return `cli:${userInfo().username}`;
}
