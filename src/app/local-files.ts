import { LocalCaller } from '../cli/callers.ts';
import type { LocalDoor } from '../cli/host.ts';
import { readKeyIds } from '../access/vault.service.ts';
import { ownerOf } from '../operation/context.ts';
import { localActor } from './actor.ts';
import { makeExtras } from './extras.ts';
import { isolate } from './isolation.ts';
import { findPlace } from './install-paths.ts';
import { openVault } from './vault.ts';

/** For operations that work on the files of the configuration, also when it cannot be used. */
export function openFiles(given: string | undefined): LocalDoor {
  const place = findPlace();
  const caller = new LocalCaller({
    get engine(): never {
      throw new Error('an operation on files has no engine');
    },
    principal: ownerOf(localActor()),
    submittedBy: 'cli',
    place: {
      given,
      shippedPlugins: place.plugins,
      isolation: isolate,
      readKeyIds: (config) => readKeyIds(openVault(config)),
      extras: makeExtras(given),
    },
  });
  return { caller, close: () => Promise.resolve() };
}
