import { describe, expect, test } from 'vitest';
import { loadArms } from '../../bench/arms.ts';
import {
  isMet,
  makeRandom,
  median,
  ratioOf,
  runTable,
  type Arm,
  type Line,
  type Measures,
  type Row,
} from '../../bench/frame.ts';
import { updatePage } from '../../bench/page.ts';
import { toCells } from '../../bench/report.ts';
import { tables } from '../../bench/rows.ts';

const row: Row = {
  id: '1',
  title: 'jobs',
  arms: ['ours'],
  base: 'theirs',
  metric: 'rate',
  unit: 'jobs/s',
  goal: 2,
  better: 'higher',
};

function armOf(name: string, rates: readonly (number | Error)[], order: string[] = []): Arm {
  return {
    name,
    available: async () => await Promise.resolve(true as const),
    run: async (repetition): Promise<Measures> => {
      order.push(`${repetition} ${name}`);
      const rate = rates[repetition] ?? 0;
      if (rate instanceof Error) throw rate;
      return await Promise.resolve({ rate });
    },
  };
}

async function run(rows: readonly Row[], arms: readonly Arm[], seed = 1): Promise<Line[]> {
  return await runTable(
    { title: 'table', rows },
    {
      arms: new Map(arms.map((arm) => [arm.name, arm])),
      repetitionsOf: ({ reps }) => reps ?? 3,
      random: makeRandom(seed),
      log: () => undefined,
      signal: new AbortController().signal,
    },
  );
}

describe('frame', () => {
  test('a ratio pairs the arm with the base of the same repetition', async () => {
    const ours = armOf('ours', [10, 40, 90]);
    const [line] = await run([row], [ours, armOf('theirs', [10, 10, 30])]);
    expect(line?.ratios).toEqual([1, 4, 3]);
    expect(line && ratioOf(line)).toBe(3);
    expect(line?.armMedian).toBe(40);
    expect(line && isMet(line)).toBe(true);
  });

  test('the goal is an upper bound when less is better', async () => {
    const lower: Row = { ...row, better: 'lower', goal: 0.5 };
    const [line] = await run([lower], [armOf('ours', [6, 6, 6]), armOf('theirs', [10, 10, 10])]);
    expect(line && isMet(line)).toBe(false);
  });

  test('an arm that fails once is given up, with the reason', async () => {
    const order: string[] = [];
    const ours = armOf('ours', [10, new Error('no luck'), 10], order);
    const [line] = await run([row], [ours, armOf('theirs', [1, 1, 1])]);
    expect(line?.ratios).toEqual([]);
    expect(line?.reason).toBe('ours: failed: no luck');
    expect(line?.failed).toBe(true);
    expect(order).toEqual(['0 ours', '1 ours']);
    expect(line && toCells(line).cells).toContain('not measured: ours: failed: no luck');
  });

  test('a missing result says why', async () => {
    const absent: Arm = {
      ...armOf('theirs', []),
      available: async () => await Promise.resolve('not installed'),
    };
    const [noBase] = await run([row], [armOf('ours', [1, 1, 1]), absent]);
    expect(noBase?.reason).toBe('theirs: not installed');
    expect(noBase?.failed).toBe(false);
    const [noArm] = await run([row], [armOf('theirs', [1, 1, 1])]);
    expect(noArm?.reason).toBe('no arm "ours"');
    expect(noArm?.baseMedian).toBe(1);
  });

  test('a shared arm runs once in a repetition, in an order that the seed decides', async () => {
    const orderOf = async (seed: number): Promise<string[]> => {
      const order: string[] = [];
      const arms = ['ours', 'theirs', 'third'].map((name) => armOf(name, [1, 1, 1], order));
      await run([row, { ...row, id: '2', arms: ['third', 'ours'] }], arms, seed);
      return order;
    };
    const first = await orderOf(7);
    expect(first.toSorted()).toEqual(
      [0, 1, 2].flatMap((at) => [`${at} ours`, `${at} theirs`, `${at} third`]),
    );
    expect(await orderOf(7)).toEqual(first);
    expect(await orderOf(8)).not.toEqual(first);
  });

  test('prepare and cleanup surround the repetitions even when an arm fails', async () => {
    const seen: string[] = [];
    const ours: Arm = {
      ...armOf('ours', [new Error('x')], seen),
      prepare: async () => await Promise.resolve(void seen.push('prepare')),
      cleanup: async () => await Promise.resolve(void seen.push('cleanup')),
    };
    await run([row], [ours]);
    expect(seen).toEqual(['prepare', '0 ours', 'cleanup']);
  });

  test('the median of an even count lies between the two in the middle', () => {
    expect(median([4, 1, 3, 2])).toBe(2.5);
    expect(median([])).toBeUndefined();
  });
});

describe('rows', () => {
  test('every base that is not Ductile itself has an arm, and ids are unique', async () => {
    const arms = await loadArms();
    const rows = tables.flatMap((table) => table.rows);
    const named = rows.flatMap(({ base, arms: names }) => [base, ...names]);
    const missing = named.filter((name) => !name.startsWith('Ductile, ') && !arms.has(name));
    expect(missing).toEqual([]);
    expect(new Set(rows.map(({ id }) => id)).size).toBe(rows.length);
  });
});

describe('page', () => {
  const machine = { identity: ['2 cores'], notes: ['disk'] };
  const empty = 'before\n<!-- bench:begin -->\nold\n<!-- bench:end -->\nafter\n';
  const section = (
    id: string,
    ratio: string,
  ): { title: string; rows: [{ key: string; cells: string[] }] } => ({
    title: 'table',
    rows: [{ key: `${id} ours`, cells: [id, 'jobs', 'ours', 'theirs', ratio, '', '', ''] }],
  });
  const write = (page: string, id: string, ratio: string, cores = '2 cores'): string =>
    updatePage(page, {
      machine: { ...machine, identity: [cores] },
      date: `day-${id}`,
      seed: 1,
      sections: [section(id, ratio)],
    });

  test('rows of an earlier run on the same machine stay, newer figures replace older', () => {
    const page = write(write(write(empty, '10', '0.5'), '2', '0.6'), '10', '0.7');
    expect(page).toMatch(/^before\n[^]*after\n$/);
    expect(page).not.toContain('old');
    expect(page).not.toContain('0.5');
    expect(page.match(/^\| (10|2) .*$/gm)).toEqual([
      '| 2 | jobs | ours | theirs | 0.6 |  |  |  | day-2 |',
      '| 10 | jobs | ours | theirs | 0.7 |  |  |  | day-10 |',
    ]);
  });

  test('rows of another machine are dropped', () => {
    const page = write(write(empty, '1', '0.5'), '2', '0.6', '64 cores');
    expect(page).not.toContain('0.5');
    expect(page).toContain('0.6');
  });
});
