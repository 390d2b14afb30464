import { existsSync } from 'node:fs';
import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { type LineWriter, makeLogger } from '../base/log.ts';
import { LocalCaller } from '../cli/callers.ts';
import type { LocalDoor } from '../cli/host.ts';
import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/load.ts';
import { takeInstanceLock } from '../ledger/sqlite/instance-lock.ts';
import { openToLook, refuseOlder, schemaOf } from '../ledger/open-readonly.ts';
import { planRestore, restoreLedger } from '../ledger/restore.ts';
import { hostIn } from '../ledger/tenant-location.ts';
import { ownerOf, type Context } from '../operation/context.ts';
import type { JsonOutput } from '../operation/define.ts';
import { findLeft } from '../pipeline/run/unfinished.service.ts';
import { localActor } from './actor.ts';
import { workOff } from './local-run.ts';
import { openInstance, openOnlooker } from './instance.ts';

/**
 * Opens the ledger without a server, to change something: it is locked meanwhile. The engine starts
 * only when something is to be run, and then fires no schedules: who cancels a job does not want
 * queued ones to begin, and who runs one plugin does not want all that is due.
 */
export async function openToWrite(given: string | undefined): Promise<LocalDoor> {
  const config = loadConfig({ given });
  const version = await schemaOf(config.state);
  if (version !== undefined) refuseOlder(version);
  const { engine, close } = await openInstance(config, quietLog(process.stderr));
  const local = new LocalCaller({
    engine,
    principal: ownerOf(localActor()),
    submittedBy: 'cli',
    standstill: (rootJobId, over) => workOff(engine, rootJobId, limits.jobWaitMs, over),
  });
  let started: Promise<void> | undefined;
  return {
    caller: {
      async call(name, input) {
        if (name !== 'plugin.run' && name !== 'pipeline.run') return local.call(name, input);
        await (started ??= engine.start('asked'));
        const answer = await local.call(name, input);
        const { root_job_id: rootJobId, timeout_exceeded: isLate, completed_at: end } = answer;
        if (typeof rootJobId !== 'string' || isLate !== false) return answer;
        // Who waited for the end wants what follows from it done as well.
        if (end !== null) await workOff(engine, rootJobId, limits.jobWaitMs);
        const waiting = await findLeft(engine.ledger, rootJobId);
        return waiting.length === 0 ? answer : { ...answer, waiting, message: GOES_ON };
      },
    },
    close,
  };
}

const GOES_ON = 'No service runs here: it goes on with the next `ductile system start` or run.';

export interface ReadingDoor extends LocalDoor {
  readonly context: Context;
}

/** The same to look at something; nobody is disturbed. */
export async function openToRead(given: string | undefined): Promise<ReadingDoor> {
  const config = loadConfig({ given });
  const ledger = await openToLook(config.state);
  // It runs nothing; what is wrong with plugins is part of the answers that are about them.
  const engine = await openOnlooker(config, ledger, quietLog({ write: () => undefined }));
  const context: Context = { engine, principal: ownerOf(localActor()), submittedBy: 'cli' };
  return { caller: new LocalCaller(context), context, close: () => ledger.close() };
}

/** Puts a backup in the place of the ledger, which nobody may be using. */
export async function restore(
  given: string | undefined,
  from: string,
  dryRun: boolean,
): Promise<JsonOutput> {
  const config = loadConfig({ given });
  if (dryRun) {
    const plan = await planRestore(from, config.state);
    const user = await findUser(config);
    return { dry_run: true, plan: user === undefined ? plan : [...plan, `${user.message}.`] };
  }
  return undisturbed(config, async () => {
    const { previous } = await restoreLedger(from, config.state);
    return { restored_from: from, previous: previous ?? null, paused: true };
  });
}

/** While nobody works with the ledger, on whichever host. */
export async function undisturbed<T>(config: Config, work: () => Promise<T>): Promise<T> {
  const user = config.state.kind === 'postgres' ? await findUser(config) : undefined;
  if (user !== undefined) throw user;
  return alone(config.state, work);
}

/** Who works with the ledger at the moment, as the error that says so. */
async function findUser({ state, service }: Config): Promise<DuctileError | undefined> {
  if (state.kind === 'postgres') {
    const host = await hostIn(state, service.reapAfterMs);
    if (host === undefined) return undefined;
    const message = `a process on ${host} works with the schema ${state.schema}`;
    const hint = 'Stop it on every host, or wait until one that was killed is known to be dead.';
    return new DuctileError('INSTANCE_LOCKED', message, { place: 'state.url', hint });
  }
  if (!existsSync(state.dir)) return undefined;
  try {
    await alone(state, () => Promise.resolve());
    return undefined;
  } catch (error) {
    if (error instanceof DuctileError && error.code === 'INSTANCE_LOCKED') return error;
    throw error;
  }
}

/** While nobody else has the ledger. */
export async function alone<T>(state: Config['state'], work: () => Promise<T>): Promise<T> {
  const lock = state.kind === 'sqlite' ? takeInstanceLock(state.dir) : undefined;
  try {
    return await work();
  } finally {
    lock?.release();
  }
}

function quietLog(destination: LineWriter) {
  return makeLogger({ level: 'error', format: 'text', destination });
}
