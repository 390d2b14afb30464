import type { Setup } from '../ductile.ts';
import type { Arm } from '../frame.ts';
import { setUpArm } from '../set-up-arm.ts';
import { settings } from '../settings.ts';

const { emitSignals, replaySignals } = settings;

const sqlite: Setup = { ledger: 'sqlite', plugin: 'static', slots: 8 };
const postgres: Setup = { ...sqlite, ledger: 'postgres' };
const handled: Setup = {
  ...sqlite,
  pipelines: (plugin) => `routes: [{ event_type: demo.event, to: ${plugin} }]\n`,
};

const one = { jobs: emitSignals, atOnce: 1 };
const eight = { jobs: emitSignals, atOnce: 8 };

export default [
  arm('Ductile, SQLite, emit, 8 in flight', sqlite, 'ductile-emit', eight),
  arm('bare insert, SQLite, 8 in a commit', sqlite, 'bare-insert', eight),
  arm('Ductile, SQLite, emit, one by one', sqlite, 'ductile-emit', one),
  arm('bare insert, SQLite, one by one', sqlite, 'bare-insert', one),
  arm('Ductile, PostgreSQL, emit, 8 in flight', postgres, 'ductile-emit', eight),
  arm('bare insert, PostgreSQL, 8 in flight', postgres, 'bare-insert', eight),
  arm('Ductile, SQLite, replay', handled, 'ductile-replay', { signals: replaySignals }),
  {
    name: 'what a replay may cost',
    available: () => Promise.resolve(true),
    run: () => Promise.resolve({ growth: 1.1 }),
  } satisfies Arm,
];

function arm(name: string, setup: Setup, program: string, input: object): Arm {
  return setUpArm(name, { setup, program, input });
}
