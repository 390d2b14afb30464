import { join } from 'node:path';
import type { Arm } from '../frame.ts';
import { runNode } from '../program.ts';
import { settings } from '../settings.ts';
import { emptyDirectory } from '../work.ts';

const { tickSchedules, tickDue } = settings;

export default [
  tickArm('Ductile, SQLite, tick', tickDue),
  tickArm('Ductile, SQLite, tick, half due', tickSchedules / 2),
  {
    name: 'the time that a tick may take',
    available: () => Promise.resolve(true),
    run: () => Promise.resolve({ loopMs: 100, longestMs: 10 }),
  } satisfies Arm,
];

function tickArm(name: string, due: number): Arm {
  const directory = name.replaceAll(/\W+/g, '-');
  return {
    name,
    available: () => Promise.resolve(true),
    async run() {
      const path = join(await emptyDirectory(directory), 'state.db');
      return await runNode('ductile-tick', { path, schedules: tickSchedules, due });
    },
    async cleanup() {
      await emptyDirectory(directory);
    },
  };
}
