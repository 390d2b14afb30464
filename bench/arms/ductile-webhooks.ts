import { canSetUp, setUp, type Setup } from '../ductile.ts';
import type { Arm, Measures } from '../frame.ts';
import { runNode } from '../program.ts';
import { setUpArm } from '../set-up-arm.ts';

const sqlite: Setup = { ledger: 'sqlite', plugin: 'static', slots: 8, api: true };

export default [
  intake('Ductile, SQLite, webhook, 64 connections', 'ledger'),
  intake('the same server, no ledger, webhook', 'none'),
  intake('the same server, its rows alone, webhook', 'rows'),
  ...[32, 8, 1].flatMap((connections) => [answer(connections), leastOf(connections)]),
  answerInMemory(),
  answerCold(),
  ...refusals({
    'refused: no such webhook': 'unknownMs',
    'refused: a webhook that is switched off': 'disabledMs',
    'refused: the first character of the proof is wrong': 'firstWrongMs',
    'refused: the last character of the proof is wrong': 'lastWrongMs',
  }),
];

function intake(name: string, store: 'ledger' | 'rows' | 'none'): Arm {
  const input = { connections: 64, store };
  return setUpArm(name, { setup: sqlite, program: 'ductile-webhooks', input });
}

function answer(connections: number): Arm {
  const name = `Ductile, SQLite, webhook to answer, connections: ${connections}`;
  // The peers start one process per connection, so Ductile gets as many slots.
  const setup = { ...sqlite, slots: connections };
  return setUpArm(name, { setup, program: 'ductile-respond', input: { connections } });
}

/** Starts each process for its request, without prewarming. */
function answerCold(): Arm {
  const setup = { ...sqlite, slots: 1, prewarm: 0 };
  const input = { connections: 1 };
  const name = 'Ductile, SQLite, webhook to answer, nothing stands by, connections: 1';
  return setUpArm(name, { setup, program: 'ductile-respond', input });
}

/** Measures the engine with a ledger in memory, where a commit costs almost nothing. */
function answerInMemory(): Arm {
  const setup = { ...sqlite, slots: 1, inMemory: true };
  const input = { connections: 1 };
  const name = 'Ductile, SQLite in memory, webhook to answer, connections: 1';
  return setUpArm(name, { setup, program: 'ductile-respond', input });
}

/** Measures the same rows without an engine, which is the bound for any engine that writes them. */
function leastOf(connections: number): Arm {
  const name = `the same rows, no engine, connections: ${connections}`;
  const setup = { ...sqlite, slots: connections };
  return setUpArm(name, { setup, program: 'bare-respond', input: { connections } });
}

/** Times all kinds in one program, because two programs differ by more than the measured effect. */
function refusals(kinds: Readonly<Record<string, string>>): Arm[] {
  const runs = new Map<number, Promise<Measures>>();
  const run = async (seed: number): Promise<Measures> =>
    await runNode('ductile-refusals', { ...(await setUp(sqlite)), seed });
  return Object.entries(kinds).map(([name, kind]) => ({
    name,
    available: async () => await canSetUp(sqlite),
    async run(repetition) {
      const running = runs.get(repetition) ?? run(repetition);
      runs.set(repetition, running);
      return { p50Ms: (await running)[kind] ?? 0 };
    },
  }));
}
