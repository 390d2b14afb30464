import { messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { TenantPool } from '../tenant/tenants.ts';
import type { Dispatcher } from './dispatcher.service.ts';
import type { PluginSwitch } from './types.ts';

/**
 * The pause of the service. The ledger stores it for all hosts, and each host reads it from time to
 * time.
 */
export class Pause {
  readonly #context: LedgerContext;
  readonly #dispatcher: Pick<Dispatcher, 'startClaiming' | 'stopClaiming'>;
  readonly #tenants: Pick<TenantPool, 'awaitPause'> | undefined;
  readonly #log: Log;
  #isOn = false;
  #changes = 0;

  constructor(
    context: LedgerContext,
    dispatcher: Pick<Dispatcher, 'startClaiming' | 'stopClaiming'>,
    tenants: Pick<TenantPool, 'awaitPause'> | undefined,
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
  async load(): Promise<void> {
    this.#isOn = await this.#read();
  }

  /** Reads the pause again: another host may have changed it. */
  async refresh(): Promise<void> {
    const changes = this.#changes;
    const isOn = await this.#read();
    // A change of this process is newer than what was read.
    if (changes === this.#changes) this.#set(isOn);
  }

  /** Applies a change of this process. When it resolves after a pause, no claim is in progress. */
  async apply(): Promise<void> {
    this.#changes += 1;
    await this.refresh();
    if (this.#isOn) await this.#stopClaiming();
  }

  async #stopClaiming(): Promise<void> {
    await this.#dispatcher.stopClaiming();
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
      // The claim itself reads the pause, so a failure here only delays the release of waiting claims.
      this.#stopClaiming().catch((error: unknown) =>
        this.#log.warn('pausing failed', { error: messageOf(error) }),
      );
    } else this.#dispatcher.startClaiming();
    this.#log.info(isOn ? 'paused: no further jobs are started' : 'resumed');
  }
}

/** The plugins that operators disabled, as this process last read them. */
export interface PluginSwitches {
  readonly disabled: readonly PluginSwitch[];
  isDisabled(plugin: string): boolean;
  /** Reads them again: another host may have changed one. */
  refresh(): Promise<void>;
}

export function makePluginSwitches(ledger: Ledger): PluginSwitches {
  let disabled: readonly PluginSwitch[] = [];
  let names: ReadonlySet<string> = new Set();
  let lastRequest = 0;
  let lastApplied = 0;
  return {
    get disabled() {
      return disabled;
    },
    isDisabled: (plugin) => names.has(plugin),
    async refresh() {
      lastRequest += 1;
      const request = lastRequest;
      const found = await ledger.plugins.listDisabled();
      // The result of a later request is newer, even if it arrives first. Each caller waits for its
      // own request, so that it sees the state at the time of its call.
      if (request < lastApplied) return;
      lastApplied = request;
      disabled = found;
      names = new Set(found.map(({ plugin }) => plugin));
    },
  };
}

/** Reads the switches again. When it resolves, this process starts no job of a disabled plugin. */
export async function enforceSwitches(
  switches: PluginSwitches,
  dispatcher: Pick<Dispatcher, 'releaseWaiting'>,
): Promise<void> {
  await switches.refresh();
  if (switches.disabled.length === 0) return;
  await dispatcher.releaseWaiting((plugin) => switches.isDisabled(plugin));
}
