import type { Setup } from '../ductile.ts';
import type { Arm } from '../frame.ts';
import { setUpArm } from '../set-up-arm.ts';
import { settings } from '../settings.ts';

const setup: Setup = { ledger: 'sqlite', plugin: 'static', slots: 8, tenants: true };
const { tenantQueued, tenantSamples: samples, tenantPauseMs: pauseMs } = settings;

export default [
  arm('Ductile, SQLite, second tenant, busy system', 'ductile-turns', {
    queued: tenantQueued,
    samples,
    pauseMs,
  }),
  arm('Ductile, SQLite, second tenant, idle system', 'ductile-turns', {
    queued: 0,
    samples,
    pauseMs,
  }),
  arm('Ductile, SQLite, 1,000 idle tenants', 'ductile-asleep', {
    tenants: settings.idleTenants,
    seconds: settings.idleSeconds,
  }),
  {
    name: 'what idle tenants may cost',
    available: () => Promise.resolve(true),
    run: () => Promise.resolve({ cpuPercent: 5, residentMb: 200 }),
  } satisfies Arm,
];

function arm(name: string, program: string, input: object): Arm {
  const options = { timeoutMs: settings.prepareTimeoutMs };
  return setUpArm(name, { setup, program, input, options });
}
