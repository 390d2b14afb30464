import type { StateConfig } from '../config/config.ts';
import { findState } from '../config/state.ts';

const located = new Map<string | undefined, StateConfig>();

/** Where the ledger is, looked up once; only when that is not plain is everything loaded to say what is wrong. */
export async function locateState(given: string | undefined): Promise<StateConfig> {
  const state = located.get(given) ?? (await findState(given)) ?? (await loadState(given));
  located.set(given, state);
  return state;
}

async function loadState(given: string | undefined): Promise<StateConfig> {
  const { loadConfig } = await import('../config/load.ts');
  return loadConfig({ given }).state;
}
