import { canSetUp, setUp, type Setup } from '../ductile.ts';
import type { Arm } from '../frame.ts';
import type { PluginKind } from '../plugins.ts';
import { runNode } from '../program.ts';
import { settings } from '../settings.ts';

const { memoryJobs } = settings;

export default [
  hostArm('python', 0),
  hostArm('python', 1),
  hostArm('node', 0),
  hostArm('node', 1),
  memoryArm('Ductile, SQLite, after 2k jobs', memoryJobs / 10),
  memoryArm('Ductile, SQLite, after 20k jobs', memoryJobs),
  memoryArm('Ductile, SQLite, after 60k jobs', memoryJobs * 3),
];

/** Sends one request at a time, to a prewarmed process or to one that is started for it. */
function hostArm(plugin: PluginKind, prewarm: 0 | 1): Arm {
  const setup: Setup = { ledger: 'sqlite', plugin, slots: 1, prewarm };
  const { prewarmSamples: samples, prewarmPauseMs: pauseMs } = settings;
  return {
    name: `Ductile, ${plugin}, ${prewarm > 0 ? 'prewarmed' : 'cold'}`,
    available: async () => await canSetUp(setup),
    async run() {
      return await runNode('ductile-prewarm', { ...(await setUp(setup)), samples, pauseMs });
    },
  };
}

function memoryArm(name: string, jobs: number): Arm {
  const setup: Setup = { ledger: 'sqlite', plugin: 'static', slots: 8 };
  return {
    name,
    available: async () => await canSetUp(setup),
    async run() {
      const place = await setUp(setup);
      return await runNode('ductile-memory', { ...place, queued: memoryJobs * 3, jobs });
    },
  };
}
