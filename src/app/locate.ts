import type { StateConfig } from '../config/config.ts';
import { findState } from '../config/state.ts';

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
