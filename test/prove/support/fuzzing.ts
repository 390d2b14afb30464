/** Campaigns of fuzzers. Earlier findings are in test/prove/corpus and are tried first. */
import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { campaign } from './campaign.ts';
import { fuzz, type Target } from './fuzz.ts';

export interface FuzzOptions {
  /** The limit of one trial, over all targets. */
  readonly cases: number;
}

const corpusDirectory = join(import.meta.dirname, '../corpus');
const found = join(import.meta.dirname, '../../../build/prove/corpus');
/** The share of a trial's cases that `npm test` tries. */
const SHORT_SHARE = 0.1;

/** A trial tries every target, with its share of cases. */
export function fuzzing(name: string, { cases }: FuzzOptions, targets: readonly Target[]): void {
  const shares = targets.reduce((sum, { share = 1 }) => sum + share, 0);
  const corpus = new Map(targets.map((target) => [target, readCorpus(target.name)]));
  const known = new Set<string>();
  campaign(name, { trials: 1, timeoutMs: 600_000 }, async ({ random, isShort }) => {
    const figures: Record<string, number | readonly number[]> = {};
    const began = performance.now();
    let total = 0;
    let slowestMs = 0;
    for (const target of targets) {
      const share = ((target.share ?? 1) / shares) * (isShort ? SHORT_SHARE : 1);
      const count = Math.round(cases * share);
      const fuzzed = await fuzz(target, corpus.get(target) ?? [], random, count);
      figures[`cases of ${target.name}`] = fuzzed.cases;
      total += fuzzed.cases;
      slowestMs = Math.max(slowestMs, fuzzed.slowestMs);
      if (!isShort) keep(target.name, fuzzed.found, known);
    }
    const seconds = (performance.now() - began) / 1000;
    return { cases: total, ...figures, casesPerSecond: [total / seconds], slowestMs: [slowestMs] };
  });
}

/** A line for each input, as JSON text. */
function readCorpus(name: string): string[] {
  const file = join(corpusDirectory, `${name}.jsonl`);
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as string);
}

/** Inputs with a new kind of response are stored beside the reports, for the corpus. */
function keep(name: string, answers: ReadonlyMap<string, string>, known: Set<string>): void {
  mkdirSync(found, { recursive: true });
  for (const [answer, input] of answers) {
    const key = `${name} ${answer}`;
    if (known.has(key)) continue;
    known.add(key);
    appendFileSync(join(found, `${name}.jsonl`), `${JSON.stringify(input)}\n`);
  }
}
