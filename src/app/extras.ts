/**
 * The only file of `src` that imports from `extras/`, which holds commands that most runs of the program
 * don't need. Each folder there is a bundle of its own, so every import here is dynamic.
 */
import type { CliSession, WatchFlags } from '../cli/host.ts';
import type { Extras } from '../operation/extras.ts';

export function makeExtras(given: string | undefined): Extras {
  return {
    async loadProver() {
      const { makeProver } = await import('../../extras/prove/prover.ts');
      return makeProver(given);
    },
    async loadWorkshop() {
      const { makeWorkshop } = await import('../../extras/workshop/workshop.ts');
      return makeWorkshop(given);
    },
  };
}

/** Runs the service of `ductile prove` in this process, until it is stopped; returns the exit code. */
export async function rehearse(given: string | undefined, directory: string): Promise<number> {
  const { runRehearsal } = await import('../../extras/prove/run-rehearsal.ts');
  return runRehearsal(given, directory);
}

export async function watch(session: CliSession, options: WatchFlags): Promise<number> {
  const { watchAll } = await import('../../extras/watch/watch.ts');
  return watchAll(session, options);
}
