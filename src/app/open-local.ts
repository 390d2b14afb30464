import type { LocalConnection, LocalNeed } from '../cli/host.ts';
import type { StateConfig } from '../config/config.ts';
import { findState } from '../config/state.ts';

/** Opens what a command needs without a service, and loads only that. */
export async function openLocal(
  config: string | undefined,
  need: LocalNeed,
): Promise<LocalConnection> {
  if (need === 'files') {
    const { openFiles } = await import('./local-engine.ts');
    return openFiles(config);
  }
  if (need === 'ledger') {
    const { openFastRead } = await import('./fast-read.ts');
    return openFastRead(await locateState(config));
  }
  const { openLocalReader, openLocalWriter } = await import('./local-engine.ts');
  return need === 'writing' ? openLocalWriter(config) : openLocalReader(config);
}

const located = new Map<string | undefined, StateConfig>();

/**
 * Finds the ledger's location, once per process. The whole configuration is loaded only if its
 * location can't be read directly.
 */
export async function locateState(given: string | undefined): Promise<StateConfig> {
  const state = located.get(given) ?? (await findState(given)) ?? (await loadState(given));
  located.set(given, state);
  return state;
}

async function loadState(given: string | undefined): Promise<StateConfig> {
  const { loadConfig } = await import('../config/load.ts');
  return loadConfig({ given }).state;
}
