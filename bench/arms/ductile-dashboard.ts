import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { canSetUp, setUp, type Setup } from '../ductile.ts';
import type { Arm } from '../frame.ts';
import { runNode } from '../program.ts';
import { settings } from '../settings.ts';
import { findChromium } from '../programs/chromium.ts';

const UI = join(import.meta.dirname, '../../dist/ui');
const setup: Setup = { ledger: 'sqlite', plugin: 'static', slots: 8, viewers: 8 };

export default [
  paintArm('Ductile, dashboard, 100 jobs', 100),
  paintArm('Ductile, dashboard, 100 thousand jobs', settings.paintJobs),
  crowdArm('Ductile, SQLite, 8 slots, no dashboard', 0),
  crowdArm('Ductile, SQLite, 8 slots, 200 dashboards', 200),
];

/** Opens the page with the list of jobs repeatedly, with a warm cache. */
function paintArm(name: string, finished: number): Arm {
  let place: Awaited<ReturnType<typeof setUp>> | undefined;
  return {
    name,
    async available() {
      if (findChromium() === undefined) return 'there is no Chromium';
      if (!existsSync(UI)) return 'the dashboard was not built';
      return await canSetUp(setup);
    },
    async run() {
      place = await setUp(setup);
      const path = join(place.config, 'data', 'state.db');
      await runNode('ductile-history', { path, finished, queued: 0 });
      return await runNode('ductile-paint', { ...place, ui: UI, samples: settings.paintSamples });
    },
  };
}

/** Measures the service beside open dashboards. */
function crowdArm(name: string, dashboards: number): Arm {
  return {
    name,
    available: async () => await canSetUp(setup),
    async run() {
      const { queuedJobs: jobs, burstSeconds } = settings;
      const input = { jobs, seconds: Math.max(2, 3 * burstSeconds), dashboards };
      return await runNode('ductile-dashboards', { ...(await setUp(setup)), ...input });
    },
  };
}
