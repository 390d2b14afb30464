import { noRules } from '../../src/ledger/rules.ts';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { openLedger } from '../../src/ledger/open.ts';
import { canSetUp, setUp, type Setup } from '../ductile.ts';
import type { Arm } from '../frame.ts';
import { settings } from '../settings.ts';
import { join } from 'node:path';

const program = fileURLToPath(new URL('../../bin/ductile.cjs', import.meta.url));
const bundle = fileURLToPath(new URL('../../dist/main.cjs', import.meta.url));
const setup: Setup = { ledger: 'sqlite', plugin: 'static', slots: 1 };

export default [
  coldArm('bare node', () => Promise.resolve(['-e', '0'])),
  coldArm('ductile --version', () => Promise.resolve([program, '--version'])),
  coldArm('ductile job list --json', async () => {
    const { config } = await setUp(setup);
    const ledger = await openLedger(
      { kind: 'sqlite', path: join(config, 'data', 'state.db') },
      noRules,
    );
    await ledger.close();
    return [program, 'job', 'list', '--json', '--config', config];
  }),
];

/** Measures a command from the start of its process to its end. */
function coldArm(name: string, makeArgs: () => Promise<string[]>): Arm {
  let args: string[] = [];
  return {
    name,
    async available() {
      if (!existsSync(bundle)) return 'run tools/build first';
      return await canSetUp(setup);
    },
    async prepare() {
      args = await makeArgs();
      // The second start finds the code that the first one compiled.
      for (let start = 0; start < 2; start += 1) startOnce(args);
    },
    run() {
      const times = Array.from({ length: settings.coldStarts }, () => startOnce(args));
      times.sort((a, b) => a - b);
      return Promise.resolve({ p50Ms: times[Math.floor(times.length / 2)] ?? 0 });
    },
  };
}

function startOnce(args: readonly string[]): number {
  const startMs = performance.now();
  const { status, stderr } = spawnSync(process.execPath, args, { env: { PATH: '/usr/bin:/bin' } });
  if (status !== 0) throw new Error(`ended with ${status}: ${stderr.toString().slice(-400)}`);
  return performance.now() - startMs;
}
