import { messageOf, DuctileError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { PluginSwitch } from '../directive/types.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { TenantKeeper } from '../tenant/tenants.ts';
import type { Dispatcher } from './dispatcher.service.ts';
import { suggest } from '../config/nearest.ts';
import {
  disablePluginType,
  enablePluginType,
  pauseType,
  resumeType,
  type PluginChoice,
} from './directives.ts';
import type { DirectiveDefinition } from '../directive/define.service.ts';

/**
 * The pause of the service. The ledger stores it for all hosts, and each host reads it from time to
 * time.
 */
export class Pause {
  readonly #context: LedgerContext;
  readonly #dispatcher: Pick<Dispatcher, 'open' | 'shut'>;
  readonly #tenants: Pick<TenantKeeper, 'awaitPause'> | undefined;
  readonly #log: Log;
  #isOn = false;
  #changes = 0;

  constructor(
    context: LedgerContext,
    dispatcher: Pick<Dispatcher, 'open' | 'shut'>,
    tenants: Pick<TenantKeeper, 'awaitPause'> | undefined,
  ) {
    this.#context = context;
    this.#dispatcher = dispatcher;
    this.#tenants = tenants;
    this.#log = context.log.child('engine');
  }

  get isOn(): boolean {
    return this.#isOn;
  }

  /** Reads the pause at the start of the service. */
  async begin(): Promise<void> {
    this.#isOn = await this.#read();
  }

  /** Reads the pause again: another host may have changed it. */
  async look(): Promise<void> {
    const changes = this.#changes;
    const isOn = await this.#read();
    // A change of this process is newer than what was read.
    if (changes === this.#changes) this.#set(isOn);
  }

  /** It was changed here: when this resolves, no claim is under way that should not be. */
  async changed(): Promise<void> {
    this.#changes += 1;
    await this.look();
    if (this.#isOn) await this.#shut();
  }

  async #shut(): Promise<void> {
    await this.#dispatcher.shut();
    await this.#tenants?.awaitPause();
  }

  async #read(): Promise<boolean> {
    return (await this.#context.ledger.meta.read('paused')) === '1';
  }

  #set(isOn: boolean): void {
    // Before the engine runs and after it stops, a pause changes nothing.
    if (isOn === this.#isOn || this.#context.state !== 'running') return;
    this.#isOn = isOn;
    if (isOn) {
      // The claim itself reads the pause, so a failure here only delays the return of waiting claims.
      this.#shut().catch((error: unknown) =>
        this.#log.warn('pausing failed', { error: messageOf(error) }),
      );
    } else this.#dispatcher.open();
    this.#log.info(isOn ? 'paused: nothing new is started' : 'resumed');
  }
}

/** Plugins that somebody switched off, as this process last heard. */
export interface PluginSwitches {
  readonly off: readonly PluginSwitch[];
  isOff(plugin: string): boolean;
  /** Reads them again: another host may have changed one. */
  refresh(): Promise<void>;
}

export function makePluginSwitches(ledger: Ledger): PluginSwitches {
  let off: readonly PluginSwitch[] = [];
  let names: ReadonlySet<string> = new Set();
  let asked = 0;
  let shown = 0;
  return {
    get off() {
      return off;
    },
    isOff: (plugin) => names.has(plugin),
    async refresh() {
      asked += 1;
      const mine = asked;
      const found = await ledger.plugins.listDisabled();
      // A later request is newer, even if it is answered sooner. Requests in progress aren't
      // awaited: the first caller must see the state at the time of its request.
      if (mine < shown) return;
      shown = mine;
      off = found;
      names = new Set(found.map(({ plugin }) => plugin));
    },
  };
}

/** Reads the switches again. When this resolves, no job of a disabled plugin is started here any more. */
export async function enforceSwitches(
  switches: PluginSwitches,
  dispatcher: Pick<Dispatcher, 'withhold'>,
): Promise<void> {
  await switches.refresh();
  if (switches.off.length === 0) return;
  await dispatcher.withhold((plugin) => switches.isOff(plugin));
}

export function pauseDirective(
  { ledger }: LedgerContext,
  pause: Pick<Pause, 'changed'>,
  dispatcher: Pick<Dispatcher, 'running'>,
): DirectiveDefinition<object> {
  return {
    ...pauseType,
    async plan() {
      if (await isPaused(ledger)) return ['It is paused already; nothing would change.'];
      return [`No more jobs would start; ${dispatcher.running.length} running would go on.`];
    },
    prepare: () => ({ work: { kind: 'system.pause', paused: true } }),
    after: () => pause.changed(),
  };
}

export function resumeDirective(
  { ledger }: LedgerContext,
  pause: Pick<Pause, 'changed'>,
): DirectiveDefinition<object> {
  return {
    ...resumeType,
    async plan() {
      if (!(await isPaused(ledger))) return ['It is not paused; nothing would change.'];
      const { ready } = await ledger.jobs.countQueue();
      return [`Jobs would start again; ${ready} are ready.`];
    },
    prepare: () => ({ work: { kind: 'system.pause', paused: false } }),
    after: () => pause.changed(),
  };
}

export function switchDirective(
  context: LedgerContext,
  switches: PluginSwitches,
  dispatcher: Pick<Dispatcher, 'withhold'>,
  enabled: boolean,
): DirectiveDefinition<PluginChoice> {
  return {
    ...(enabled ? enablePluginType : disablePluginType),
    async plan({ plugin }) {
      await switches.refresh();
      if (!context.catalog.plugins.has(plugin)) {
        throw new DuctileError('PLUGIN_NOT_FOUND', `there is no plugin ${plugin}`, {
          hint: suggest(plugin, [...context.catalog.plugins.keys()], 'plugins'),
        });
      }
      if (switches.isOff(plugin) !== enabled) {
        return [`The plugin ${plugin} is ${enabled ? 'on' : 'off'} already; nothing would change.`];
      }
      if (enabled) return [`Jobs of ${plugin} would start again, and its schedules go on.`];
      return [`Jobs of ${plugin} would be accepted and wait; its schedules would not fire.`];
    },
    prepare: ({ plugin }) => ({ work: { kind: 'plugin.switch', plugin, enabled } }),
    after: () => enforceSwitches(switches, dispatcher),
  };
}

async function isPaused(ledger: Ledger): Promise<boolean> {
  return (await ledger.meta.read('paused')) === '1';
}
