import { join } from 'node:path';
import type { Arm, Measures } from '../frame.ts';
import { runNode } from '../program.ts';
import { settings } from '../settings.ts';
import { emptyDirectory } from '../work.ts';

const { cycleJobs, claims, historyJobs, queuedDeep, queuedShallow } = settings;

interface Contents {
  readonly finished: number;
  readonly queued: number;
}

const cycle = async (path: string): Promise<Measures> =>
  await runNode('ductile-cycle', { path, jobs: cycleJobs });
const claim = async (path: string): Promise<Measures> =>
  await runNode('ductile-claim', { path, claims });

export default [
  depthArm('Ductile, SQLite, cycle, none finished', { finished: 0, queued: 0 }, cycle),
  depthArm('Ductile, SQLite, cycle, 5M finished', { finished: historyJobs, queued: 0 }, cycle),
  depthArm('Ductile, SQLite, claim, 1k queued', { finished: 0, queued: queuedShallow }, claim),
  depthArm('Ductile, SQLite, claim, 1M queued', { finished: 0, queued: queuedDeep }, claim),
];

/** Measures the ledger without an engine. A large ledger is created once; rows that a burst adds don't matter. */
function depthArm(name: string, contents: Contents, run: (path: string) => Promise<Measures>): Arm {
  const isLarge = contents.finished + contents.queued > settings.queuedShallow;
  let large = '';
  return {
    name,
    available: () => Promise.resolve(true),
    async prepare() {
      if (isLarge) large = await makeLedger(name, contents);
    },
    async run() {
      return await run(isLarge ? large : await makeLedger(name, contents));
    },
    async cleanup() {
      await emptyDirectory(directoryOf(name));
    },
  };
}

async function makeLedger(name: string, contents: Contents): Promise<string> {
  const path = join(await emptyDirectory(directoryOf(name)), 'state.db');
  await runNode('ductile-history', { path, ...contents }, { timeoutMs: settings.prepareTimeoutMs });
  return path;
}

function directoryOf(name: string): string {
  return name.replaceAll(/\W+/g, '-');
}
