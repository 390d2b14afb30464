import { canSetUp, setUp, type Setup } from '../ductile.ts';
import type { Arm } from '../frame.ts';
import { runNode } from '../program.ts';
import { settings } from '../settings.ts';

const { noopJobs, enqueueJobs } = settings;

/** More slots bring nothing without processes. */
const SLOTS = 500;
const postgres: Setup = { ledger: 'postgres', plugin: 'static', slots: SLOTS };
const sqlite: Setup = { ...postgres, ledger: 'sqlite' };

export default [
  queueArm('Ductile, PostgreSQL, no-op', postgres, 'ductile-noop', noopJobs),
  queueArm('Ductile, PostgreSQL, enqueue', postgres, 'ductile-enqueue', enqueueJobs),
  queueArm('Ductile, PostgreSQL, idle', { ...postgres, slots: 10 }, 'ductile-idle', 0),
  queueArm('Ductile, SQLite, no-op', sqlite, 'ductile-noop', noopJobs),
];

/** Measures the engine without plugin processes. */
function queueArm(name: string, setup: Setup, program: string, jobs: number): Arm {
  return {
    name,
    available: async () => await canSetUp(setup),
    async run() {
      return await runNode(program, { ...(await setUp(setup)), jobs });
    },
  };
}
