import { makeLogger } from '../base/log.ts';
import { LocalCaller } from '../cli/callers.ts';
import type { LocalDoor } from '../cli/host.ts';
import { loadConfig } from '../config/load.ts';
import { takeInstanceLock } from '../ledger/instance-lock.ts';
import { restoreLedger } from '../ledger/restore.ts';
import type { JsonOutput } from '../operations/define.ts';
import { openInstance } from './instance.ts';
import { localActor } from './surfaces.ts';

/**
 * Opens the ledger without a server. The engine starts only when something is to be run: who lists
 * jobs does not want queued ones to begin.
 */
export async function openLocal(given: string | undefined): Promise<LocalDoor> {
  const log = makeLogger({ level: 'error', format: 'text', destination: process.stderr });
  const { engine, close } = await openInstance(loadConfig({ given }), log);
  const local = new LocalCaller({ engine, actor: localActor(), submittedBy: 'cli' });
  let started: Promise<void> | undefined;
  return {
    caller: {
      async call(name, input) {
        if (name === 'plugin.run') await (started ??= engine.start());
        return local.call(name, input);
      },
    },
    close,
  };
}

/** Puts a backup in the place of the ledger, which nobody may be using. */
export async function restore(given: string | undefined, from: string): Promise<JsonOutput> {
  const { state } = loadConfig({ given });
  const lock = state.kind === 'sqlite' ? takeInstanceLock(state.dir) : undefined;
  try {
    const { previous } = await restoreLedger(from, state);
    return { restored_from: from, previous: previous ?? null, paused: true };
  } finally {
    lock?.release();
  }
}
