import { messageOf } from '../src/base/errors.ts';

export type Measures = Record<string, number>;

/** Measured program: a stand-in, a peer, or Ductile in one configuration. */
export interface Arm {
  readonly name: string;
  /** Returns true, or the reason why this machine can't measure it. */
  available(): Promise<true | string>;
  /** Called once, before the first burst. */
  prepare?(): Promise<void>;
  /** Runs one short burst. */
  run(repetition: number): Promise<Measures>;
  /** Called once, after the last burst, if `prepare` succeeded. */
  cleanup?(): Promise<void>;
}

/** Row with a goal. `arms` and `base` are names of arms; the goal applies to the first arm. */
export interface Row {
  readonly id: string;
  readonly title: string;
  readonly arms: readonly [string, ...string[]];
  readonly base: string;
  readonly metric: string;
  readonly unit: string;
  /** Undefined for a figure without a goal. */
  readonly goal?: number;
  readonly better: 'higher' | 'lower';
  /** Number of repetitions, if the default would take too long. */
  readonly reps?: number;
}

/** Rows whose arms run interleaved, so that a slow minute of the machine hits all of them. */
export interface Table {
  readonly title: string;
  readonly rows: readonly Row[];
}

export interface Line {
  readonly row: Row;
  readonly arm: string;
  /** True if the goal applies to this arm. */
  readonly judged: boolean;
  /** Ratio of each repetition in which both this arm and the base were measured. */
  readonly ratios: readonly number[];
  readonly armMedian: number | undefined;
  readonly baseMedian: number | undefined;
  /** Reason for a missing ratio. */
  readonly reason: string | undefined;
  /** True if the arm or the base failed unexpectedly. */
  readonly failed: boolean;
}

export interface FrameOptions {
  readonly arms: ReadonlyMap<string, Arm>;
  readonly repetitionsOf: (row: Row) => number;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly log: (text: string) => void;
  readonly signal: AbortSignal;
}

interface Entry {
  readonly arm: Arm;
  readonly runs: Map<number, Measures>;
  reason: string | undefined;
  failed: boolean;
  prepared: boolean;
}

export async function runTable(table: Table, options: FrameOptions): Promise<Line[]> {
  const entries = makeEntries(table, options.arms);
  try {
    for (const entry of entries.values()) await prepare(entry, options);
    await repeat(table, entries, options);
  } finally {
    for (const { arm, prepared } of entries.values()) {
      if (prepared) await arm.cleanup?.();
    }
  }
  return table.rows.flatMap((row) => row.arms.map((name) => makeLine(row, name, entries)));
}

export function ratioOf(line: Line): number | undefined {
  return median(line.ratios);
}

export function isMet(line: Line): boolean | undefined {
  const ratio = ratioOf(line);
  const { goal, better } = line.row;
  if (!line.judged || ratio === undefined || goal === undefined) return undefined;
  return better === 'higher' ? ratio >= goal : ratio <= goal;
}

export function median(values: readonly number[]): number | undefined {
  if (values.length === 0) return undefined;
  const sorted = values.toSorted((a, b) => a - b);
  const high = sorted[Math.floor(sorted.length / 2)] ?? 0;
  const low = sorted[Math.floor((sorted.length - 1) / 2)] ?? 0;
  return (low + high) / 2;
}

/** Creates a random generator (mulberry32): the same seed gives the same order of arms. */
export function makeRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function makeEntries(table: Table, arms: ReadonlyMap<string, Arm>): Map<string, Entry> {
  const names = new Set(table.rows.flatMap((row) => [row.base, ...row.arms]));
  const entries = new Map<string, Entry>();
  for (const name of names) {
    const arm = arms.get(name);
    if (arm !== undefined)
      entries.set(name, {
        arm,
        runs: new Map(),
        reason: undefined,
        failed: false,
        prepared: false,
      });
  }
  return entries;
}

async function prepare(entry: Entry, { log }: FrameOptions): Promise<void> {
  try {
    const available = await entry.arm.available();
    if (available === true) {
      await entry.arm.prepare?.();
      entry.prepared = true;
    } else {
      entry.reason = available;
    }
  } catch (error) {
    entry.reason = `cannot be prepared: ${messageOf(error)}`;
    entry.failed = true;
  }
  if (entry.reason !== undefined) log(`  not measured: ${entry.arm.name}: ${entry.reason}`);
}

async function repeat(
  table: Table,
  entries: ReadonlyMap<string, Entry>,
  options: FrameOptions,
): Promise<void> {
  const lastFor = (name: string): number =>
    Math.max(
      ...table.rows
        .filter((row) => row.base === name || row.arms.includes(name))
        .map((row) => options.repetitionsOf(row)),
    );
  const rounds = Math.max(...table.rows.map((row) => options.repetitionsOf(row)));
  for (let repetition = 0; repetition < rounds; repetition += 1) {
    const due = [...entries.values()].filter(
      (entry) => entry.reason === undefined && repetition < lastFor(entry.arm.name),
    );
    for (const entry of shuffle(due, options.random)) {
      options.signal.throwIfAborted();
      await runOnce(entry, repetition, options);
    }
  }
}

/** Runs one burst. An arm that fails once isn't run again, because the remaining bursts would mislead. */
async function runOnce(entry: Entry, repetition: number, options: FrameOptions): Promise<void> {
  try {
    const measures = await entry.arm.run(repetition);
    entry.runs.set(repetition, measures);
    options.log(`  ${repetition + 1} ${entry.arm.name}: ${JSON.stringify(measures)}`);
  } catch (error) {
    options.signal.throwIfAborted();
    entry.reason = `failed: ${messageOf(error)}`;
    entry.failed = true;
    entry.runs.clear();
    options.log(`  ${repetition + 1} ${entry.arm.name}: ${entry.reason}`);
  }
}

function makeLine(row: Row, name: string, entries: ReadonlyMap<string, Entry>): Line {
  const arm = entries.get(name);
  const base = entries.get(row.base);
  const ratios: number[] = [];
  for (const [repetition, measures] of arm?.runs ?? []) {
    const mine = measures[row.metric];
    const theirs = base?.runs.get(repetition)?.[row.metric];
    if (mine !== undefined && theirs !== undefined && theirs > 0) ratios.push(mine / theirs);
  }
  return {
    row,
    arm: name,
    judged: name === row.arms[0],
    ratios,
    armMedian: medianOf(arm, row.metric),
    baseMedian: medianOf(base, row.metric),
    reason: ratios.length > 0 ? undefined : (whyNot(name, arm, row) ?? whyNot(row.base, base, row)),
    failed: arm?.failed === true || base?.failed === true,
  };
}

function medianOf(entry: Entry | undefined, metric: string): number | undefined {
  const values = [...(entry?.runs.values() ?? [])].map((measures) => measures[metric]);
  return median(values.filter((value) => value !== undefined));
}

function whyNot(name: string, entry: Entry | undefined, row: Row): string | undefined {
  if (entry === undefined) return `no arm "${name}"`;
  if (entry.reason !== undefined) return `${name}: ${entry.reason}`;
  return medianOf(entry, row.metric) === undefined ? `${name} gave no ${row.metric}` : undefined;
}

function shuffle<T>(items: readonly T[], random: () => number): T[] {
  return items
    .map((item) => ({ item, at: random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ item }) => item);
}
