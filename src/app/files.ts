import { LocalCaller } from '../cli/callers.ts';
import type { LocalDoor } from '../cli/host.ts';
import { ownerOf } from '../operations/context.ts';
import { localActor } from './actor.ts';
import { isolate } from './isolate.ts';
import { findPlace } from './place.ts';

/** For operations that work on the files of the configuration, also when it cannot be used. */
export function openFiles(given: string | undefined): LocalDoor {
  const caller = new LocalCaller({
    get engine(): never {
      throw new Error('an operation on files has no engine');
    },
    principal: ownerOf(localActor()),
    submittedBy: 'cli',
    place: { given, shippedPlugins: findPlace().plugins, isolation: isolate },
  });
  return { caller, close: () => Promise.resolve() };
}
