import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import type { Measures } from '../frame.ts';
import { settings } from '../settings.ts';

/** Runs a program: reads its input from the command line, prints its measures, and exits. */
export async function measure<Shape extends z.ZodType>(
  shape: Shape,
  run: (input: z.infer<Shape>) => Promise<Measures>,
): Promise<void> {
  const input = shape.parse(JSON.parse(process.argv[2] ?? '{}'));
  const line = `${JSON.stringify(await run(input))}\n`;
  // Timers and connections of peers could keep the process alive.
  process.stdout.write(line, () => process.exit(0));
}

export interface JobRate {
  readonly jobs: number;
  readonly rate: number;
}

/** Measures jobs per second of work that returns its number of jobs. */
export async function timed(work: () => Promise<number>): Promise<Measures & JobRate> {
  const began = performance.now();
  const jobs = await work();
  const seconds = (performance.now() - began) / 1000;
  return { jobs, rate: round(jobs / seconds) };
}

/** Calls `add` `count` times, with a number of concurrent calls. */
export async function inFlight(
  slots: number,
  count: number,
  add: () => Promise<unknown>,
): Promise<number> {
  let left = count;
  const slot = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      await add();
    }
  };
  await Promise.all(Array.from({ length: slots }, slot));
  return count;
}

/** Counts to a number of calls. */
export class Counter {
  readonly reached: Promise<void>;
  readonly #total: number;
  #count = 0;
  #resolve: () => void = () => undefined;

  constructor(total: number) {
    this.#total = total;
    this.reached = new Promise((resolve) => (this.#resolve = resolve));
  }

  add(count = 1): void {
    this.#count += count;
    if (this.#count >= this.#total) this.#resolve();
  }
}

/** Measures the time from enqueueing a job on an idle system until it runs, when it calls `onRun`. */
export async function idleLatency(add: (onRun: () => void) => Promise<unknown>): Promise<Measures> {
  const { min, max } = settings.latencyPauseMs;
  const samples: number[] = [];
  while (samples.length < settings.latencySamples) {
    await pause(min + Math.random() * (max - min));
    const began = performance.now();
    const ran = new Promise<number>((resolve) => {
      void add(() => resolve(performance.now()));
    });
    samples.push((await ran) - began);
  }
  return { p50Ms: percentile(samples, 0.5), p99Ms: percentile(samples, 0.99) };
}

/** Splits a count into batches of at most a thousand. */
export function batches<T>(count: number, item: T): T[][] {
  const sizes = Array.from({ length: Math.ceil(count / 1000) }, (_, at) =>
    Math.min(1000, count - at * 1000),
  );
  return sizes.map((size) => Array.from({ length: size }, () => item));
}

export function percentile(samples: readonly number[], share: number): number {
  const sorted = samples.toSorted((a, b) => a - b);
  const at = Math.min(sorted.length - 1, Math.floor(sorted.length * share));
  return Math.round((sorted[at] ?? 0) * 1000) / 1000;
}

/** Returns the memory of the last fifth divided by that of the second; the first contains the warm-up. */
export function growthOf(samples: readonly number[]): number {
  const fifth = Math.ceil(samples.length / 5);
  const early = percentile(samples.slice(fifth, 2 * fifth), 0.5);
  const late = percentile(samples.slice(-fifth), 0.5);
  return Math.round((late / early) * 100) / 100;
}

export function round(value: number): number {
  return Math.round(value * 10) / 10;
}
