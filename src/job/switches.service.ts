import type { PluginSwitch } from '../directive/types.ts';
import type { Ledger } from '../ledger/ledger.ts';

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
      const found = await ledger.switchedOff();
      // What was asked for later is newer, also when it is answered sooner. One that is still on its
      // way is not waited for: whoever asked first must see what was true when they asked.
      if (mine < shown) return;
      shown = mine;
      off = found;
      names = new Set(found.map(({ plugin }) => plugin));
    },
  };
}
