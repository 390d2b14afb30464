import { messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { PluginSwitch } from '../directive/types.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { TenantKeeper } from '../tenant/tenants.ts';
import type { Dispatcher } from './dispatcher.service.ts';

/** Whether this process starts jobs. The ledger says it for all hosts; each asks from time to time. */
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

  /** What the engine begins with. */
  async begin(): Promise<void> {
    this.#isOn = await this.#read();
  }

  /** Somebody may have paused or resumed all hosts from another one. */
  async look(): Promise<void> {
    const changes = this.#changes;
    const isOn = await this.#read();
    // What was changed here meanwhile is newer than what was read.
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
export interface Switches {
  readonly off: readonly PluginSwitch[];
  isOff(plugin: string): boolean;
  /** Reads them again: another host may have changed one. */
  refresh(): Promise<void>;
}

export function makeSwitches(ledger: Ledger): Switches {
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
      // What was asked for later is newer, also when it is answered sooner. One that is still on its
      // way is not waited for: whoever asked first must see what was true when they asked.
      if (mine < shown) return;
      shown = mine;
      off = found;
      names = new Set(found.map(({ plugin }) => plugin));
    },
  };
}

/** Reads the switches again. When this resolves, no job of a disabled plugin is started here any more. */
export async function enforceSwitches(
  switches: Switches,
  dispatcher: Pick<Dispatcher, 'withhold'>,
): Promise<void> {
  await switches.refresh();
  if (switches.off.length === 0) return;
  await dispatcher.withhold((plugin) => switches.isOff(plugin));
}
