/** The sum of a campaign's trials. */

/** Counts are summed over trials; lists are samples, reported by their median and extremes. */
export type Figures = Readonly<Record<string, number | readonly number[]>>;

/** A line of a campaign's file. */
export interface TrialLine {
  readonly index: number;
  readonly seed: number;
  readonly ms: number;
  readonly figures?: Figures | undefined;
  /** The faults; a trial without one is clean. */
  readonly fault?: string | undefined;
}

export interface Summary {
  readonly trials: number;
  readonly clean: number;
  /** The 95 % bound of the failure rate when all were clean. */
  readonly bound: number | null;
  readonly minutes: number;
  readonly sums: Readonly<Record<string, number>>;
  readonly samples: Readonly<Record<string, Spread>>;
  readonly faults: readonly Pick<TrialLine, 'index' | 'seed' | 'fault'>[];
}

export interface Spread {
  readonly n: number;
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

const MS_PER_MINUTE = 60_000;

export function summarize(lines: readonly TrialLine[]): Summary {
  const sums = new Map<string, number>();
  const samples = new Map<string, number[]>();
  for (const [name, value] of lines.flatMap(({ figures = {} }) => Object.entries(figures))) {
    if (typeof value === 'number') sums.set(name, (sums.get(name) ?? 0) + value);
    else samples.set(name, [...(samples.get(name) ?? []), ...value]);
  }
  const faults = lines.filter(({ fault }) => fault !== undefined);
  return {
    trials: lines.length,
    clean: lines.length - faults.length,
    bound: faults.length > 0 || lines.length === 0 ? null : Math.min(1, 3 / lines.length),
    minutes: round(lines.reduce((sum, { ms }) => sum + ms, 0) / MS_PER_MINUTE),
    sums: Object.fromEntries(sums),
    samples: Object.fromEntries([...samples].map(([name, all]) => [name, spreadOf(all)])),
    faults: faults.map(({ index, seed, fault }) => ({ index, seed, fault })),
  };
}

/** A readable report: the trials, their results, and the command that repeats a fault. */
export function describe(name: string, summary: Summary): string {
  const { trials, clean, bound, minutes, sums, samples, faults } = summary;
  const certain = bound === null ? '' : `, so fewer than ${percent(bound)} fail (95 %)`;
  return [
    `${name}: ${clean} of ${trials} trials clean in ${minutes} min${certain}`,
    ...Object.entries(sums).map(([what, count]) => `  ${what}: ${round(count)}`),
    ...Object.entries(samples).map(
      ([what, { n, p50, p99, max }]) => `  ${what}: p50 ${p50}, p99 ${p99}, max ${max} (n = ${n})`,
    ),
    ...faults.map(
      ({ index, seed, fault }) =>
        `  FAULT in trial ${index}: ${fault?.split('\n')[0]}\n` +
        `    again: npm run prove -- ${name} --seed ${seed - index} --from ${index} --trials 1`,
    ),
  ].join('\n');
}

function spreadOf(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number): number =>
    round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0);
  return { n: sorted.length, p50: at(0.5), p99: at(0.99), max: at(1) };
}

function percent(share: number): string {
  return `${Number((share * 100).toPrecision(2))} %`;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
