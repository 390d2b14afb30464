import { toLoopbackUrl } from '../cli/ui.ts';
import { listenApi, listenControl, listenWebhooks } from '../http/listeners.ts';
import type { HttpListener } from '../http/listen.ts';
import { describeSocketOwner } from '../http/control-socket.ts';
import { createMcpHttpHandler } from '../mcp/http-handler.ts';
import { ownerOf, type Context } from '../operation/context.ts';
import { localActor } from './actor.ts';
import type { Instance } from './instance.ts';
import { findPlace } from './install-paths.ts';

/** Where a running server can be reached. */
export interface Surfaces {
  readonly control: string;
  /** Undefined when the API is off. */
  readonly api: string | undefined;
  /** Undefined when webhooks have no listener of their own. */
  readonly webhooks: string | undefined;
  close(): Promise<void>;
}

export async function openSurfaces({ config, engine, log }: Instance): Promise<Surfaces> {
  const context: Context = { engine, principal: ownerOf(localActor()), submittedBy: 'cli' };
  const httpLog = log.child('http');
  const mcp = createMcpHttpHandler(findPlace().version);
  const own = config.state.kind === 'postgres' ? { processId: engine.processId } : {};
  const control = await listenControl(
    { ...describeSocketOwner(config.state.dir), ...own },
    context,
    httpLog,
    mcp,
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
      const { ui } = findPlace();
      api = await open(listenApi({ ...config.api, ui, mcp }, engine, httpLog));
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
  engine.reach.hooks = webhooks && toLoopbackUrl(webhooks);
  return {
    control: control.address,
    api,
    webhooks,
    close: closeAll,
  };
}
