import { canSetUp, setUp, type Setup } from '../ductile.ts';
import type { Arm } from '../frame.ts';
import { runNode } from '../program.ts';
import { settings } from '../settings.ts';

const sqlite8: Setup = { ledger: 'sqlite', plugin: 'static', slots: 8 };
const HEAP_MB = 1024;

export default [
  runArm('Ductile, SQLite, 8 slots', sqlite8),
  runArm('Ductile, SQLite, 16 slots', { ...sqlite8, slots: 16 }),
  runArm('Ductile, SQLite, 8 slots, Node helper', { ...sqlite8, spawner: 'node' }),
  runArm('Ductile, SQLite, python, 4 slots', { ...sqlite8, plugin: 'python', slots: 4 }),
  runArm('Ductile, SQLite, 8 slots, 1 GB heap', sqlite8, HEAP_MB),
  runArm('Ductile, PostgreSQL, 8 slots', { ...sqlite8, ledger: 'postgres' }),
  runArm('Ductile, PostgreSQL, 16 slots', { ...sqlite8, ledger: 'postgres', slots: 16 }),
];

/** Measures the complete service, with a process for each job. */
function runArm(name: string, setup: Setup, heapMb = 0): Arm {
  return {
    name,
    available: async () => await canSetUp(setup),
    async run() {
      const { queuedJobs: jobs, burstSeconds: seconds } = settings;
      const place = await setUp(setup);
      const nodeOptions = heapMb > 0 ? [`--max-old-space-size=${heapMb * 3}`] : [];
      return await runNode('ductile-run', { ...place, jobs, seconds, heapMb }, { nodeOptions });
    },
  };
}
