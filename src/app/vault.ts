import type { Config } from '../config/config.ts';
import { makeKeyRing } from '../access/key-ring.service.ts';
import { makeVault } from '../access/vault.service.ts';
import type { Vault } from '../access/vault.ts';

/** Uses the keys of the environment and of the state directory. */
export function openVault({ state }: Pick<Config, 'state'>): Vault {
  return makeVault(makeKeyRing({ directory: state.dir, environment: process.env }));
}
