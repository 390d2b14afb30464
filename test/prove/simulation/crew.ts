/** Runs worlds on all cores: each has a thread, which runs one world after the other. */
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { atEnd } from '../../support/at-end.ts';
import { makeDirectory } from '../../support/directory.ts';
import type { WorldReport } from './world.ts';

/** The report of a thread about a world. */
export interface PlayedWorld {
  readonly number: number;
  readonly report: WorldReport;
}

export interface Crew {
  /** Runs all of them, or up to the first one with a fault. */
  play(numbers: readonly number[]): Promise<readonly PlayedWorld[]>;
}

/** Few objects outlive their world, so a large young generation avoids most copying. */
const YOUNG_MB = 96;

export async function openCrew(): Promise<Crew> {
  const threads = await Promise.all(Array.from({ length: availableParallelism() }, openThread));
  let before: Promise<unknown> = Promise.resolve();
  return {
    play(numbers) {
      // A trial whose time is over may still run, and a thread has one clock for all its worlds.
      const playing = before.then(() => playAll(threads, numbers));
      before = playing.catch(() => undefined);
      return playing;
    },
  };
}

async function playAll(
  threads: readonly Worker[],
  numbers: readonly number[],
): Promise<PlayedWorld[]> {
  const left = [...numbers];
  const played: PlayedWorld[] = [];
  const work = async (thread: Worker): Promise<void> => {
    for (let number = left.shift(); number !== undefined; number = left.shift()) {
      const answer = once(thread, 'message') as Promise<[PlayedWorld]>;
      thread.postMessage(number, []);
      const [one] = await answer;
      played.push(one);
      if (one.report.fault !== undefined) left.length = 0;
    }
  };
  await Promise.all(threads.map(work));
  return played;
}

async function openThread(): Promise<Worker> {
  const directory = await makeDirectory();
  const thread = new Worker(new URL('./thread.ts', import.meta.url), {
    workerData: directory,
    resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
  });
  atEnd(async () => void (await thread.terminate()));
  // Rejects with the error of a thread that fails before that.
  await once(thread, 'message');
  return thread;
}
