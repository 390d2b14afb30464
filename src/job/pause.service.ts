import { messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { PluginSwitch } from '../directive/types.ts';

interface PauseOptions {
  readonly ledger: Ledger;
  /** Before the engine runs and after it stops, a pause changes nothing. */
  readonly isRunning: () => boolean;
  readonly open: () => void;
  readonly shut: () => Promise<void>;
  readonly log: Log;
}

/** Whether this process starts jobs. The ledger says it for all hosts; each asks from time to time. */
export class Pause {
  readonly #options: PauseOptions;
  #isOn = false;
  #changes = 0;

  constructor(options: PauseOptions) {
    this.#options = options;
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
    if (this.#isOn) await this.#options.shut();
  }

  async #read(): Promise<boolean> {
    return (await this.#options.ledger.meta.read('paused')) === '1';
  }

  #set(isOn: boolean): void {
    const { isRunning, open, shut, log } = this.#options;
    if (isOn === this.#isOn || !isRunning()) return;
    this.#isOn = isOn;
    if (isOn) {
      // The claim itself reads the pause, so a failure here only delays the return of waiting claims.
      shut().catch((error: unknown) => log.warn('pausing failed', { error: messageOf(error) }));
    } else open();
    log.info(isOn ? 'paused: nothing new is started' : 'resumed');
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
