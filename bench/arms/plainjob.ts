import { join } from 'node:path';
import type { Arm } from '../frame.ts';
import { hasPeers } from '../peers.ts';
import { runNode } from '../program.ts';
import { settings } from '../settings.ts';
import { emptyDirectory } from '../work.ts';

export default [
  plainjobArm('plainjob, synchronous=FULL', 'FULL', settings.noopJobsSlow),
  plainjobArm('plainjob, as shipped', 'as shipped', settings.noopJobs),
];

function plainjobArm(name: string, synchronous: 'FULL' | 'as shipped', jobs: number): Arm {
  return {
    name,
    async available() {
      return await hasPeers('plainjob', 'better-sqlite3');
    },
    async run() {
      const file = join(await emptyDirectory('plainjob'), 'queue.db');
      return await runNode('plainjob', { file, synchronous, jobs });
    },
  };
}
