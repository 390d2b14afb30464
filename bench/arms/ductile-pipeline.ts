import type { Setup } from '../ductile.ts';
import type { Arm } from '../frame.ts';
import { setUpArm } from '../set-up-arm.ts';
import { settings } from '../settings.ts';

const { chainSteps: steps, chainSamples, chainProcessSamples, chainsAtOnce } = settings;

/** More slots bring nothing without processes. */
const SLOTS = 500;
const noop: Setup = { ledger: 'sqlite', plugin: 'static', slots: SLOTS, pipelines };
/** Few enough that simultaneous ends are settled within the allowed delay of the event loop. */
const narrow: Setup = { ...noop, slots: 32 };
const plain: Setup = { ledger: 'sqlite', plugin: 'static', slots: 4, api: true, pipelines };
const python: Setup = { ledger: 'sqlite', plugin: 'python', slots: 4, api: true, pipelines };

export default [
  arm('Ductile, SQLite, one job, no-op', noop, 'ductile-chain', {
    pipeline: '',
    steps: 1,
    samples: chainSamples,
    processes: false,
  }),
  arm('Ductile, SQLite, chain, no-op', noop, 'ductile-chain', {
    pipeline: 'chain',
    steps,
    samples: chainSamples,
    processes: false,
  }),
  arm('Ductile, SQLite, chain, python', python, 'ductile-chain', {
    pipeline: 'chain',
    steps,
    samples: chainProcessSamples,
    processes: true,
  }),
  arm('Ductile, SQLite, chains at once, no-op', noop, 'ductile-chains', {
    chains: chainsAtOnce,
    steps,
  }),
  arm('Ductile, SQLite, enqueue to end, 32 slots', narrow, 'ductile-plain', {
    jobs: settings.foreachWidth,
  }),
  arm('Ductile, SQLite, foreach, no-op', narrow, 'ductile-foreach', {
    width: settings.foreachWidth,
  }),
  arm('Ductile, SQLite, synchronous request, python', python, 'ductile-sync', {
    samples: settings.syncSamples,
  }),
  arm('Ductile, SQLite, synchronous request, static', plain, 'ductile-sync', {
    samples: settings.syncSamples,
  }),
  arm('Ductile, static, one after the other', plain, 'ductile-prewarm', {
    samples: settings.syncSamples,
    pauseMs: 0,
  }),
  arm('Ductile, python, one after the other', python, 'ductile-prewarm', {
    samples: settings.syncSamples,
    pauseMs: 0,
  }),
  {
    name: 'what a foreach may cost',
    available: () => Promise.resolve(true),
    run: () => Promise.resolve({ longestMs: 20, growth: 1.1 }),
  } satisfies Arm,
];

function arm(name: string, setup: Setup, program: string, input: object): Arm {
  return setUpArm(name, { setup, program, input });
}

function pipelines(plugin: string): string {
  const step = `uses: ${plugin}.handle`;
  const chain = Array.from({ length: steps }, (_, at) => `      - { id: s${at}, ${step} }`);
  return `pipelines:
  - name: chain
    steps:
${chain.join('\n')}
  - name: wide
    max_fanout: 1000000
    steps:
      - id: all
        foreach: 'payload.items'
        steps: [{ id: each, ${step} }]
  - name: one
    execution_mode: synchronous
    steps: [{ id: only, ${step} }]
`;
}
