import { listenApi, listenControl } from '../http/control.ts';
import type { Listener } from '../http/listen.ts';
import { socketOwner } from '../http/socket.ts';
import { ownerOf, type Context } from '../operations/context.ts';
import { localActor } from './actor.ts';
import type { Instance } from './instance.ts';

/** Where a running server can be reached. */
export interface Surfaces {
  readonly control: string;
  /** Undefined when the API is off. */
  readonly api: string | undefined;
  close(): Promise<void>;
}

export async function openSurfaces({ config, engine, log }: Instance): Promise<Surfaces> {
  const context: Context = { engine, principal: ownerOf(localActor()), submittedBy: 'cli' };
  const httpLog = log.child('http');
  const own = config.state.kind === 'postgres' ? { processId: engine.processId } : {};
  const control = await listenControl(
    { ...socketOwner(config.state.dir), ...own },
    context,
    httpLog,
  );
  const listeners: Listener[] = [control];
  let api: Listener | undefined;
  try {
    if (config.api.enabled) api = await listenApi(config.api, engine, httpLog);
    if (api !== undefined) listeners.push(api);
  } catch (error) {
    await control.close();
    throw error;
  }
  return {
    control: control.address,
    api: api === undefined ? undefined : `http://${api.address}`,
    async close() {
      await Promise.all(listeners.map((listener) => listener.close()));
    },
  };
}
