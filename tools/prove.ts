/**
 * Runs campaigns of test/prove: `npm run prove -- NAME… [--seed N] [--minutes N] [--trials N] [--from N]`,
 * `npm run prove -- --list`. A campaign that was stopped goes on where it was; `--fresh` begins anew.
 * Every trial is a line in build/prove/NAME.jsonl; NAME.json and NAME.txt are what they add up to.
 */
import { spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { Asked } from '../test/prove/support/campaign.ts';
import { describe, summarize, type TrialLine } from '../test/prove/support/report.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const campaigns = join(root, 'test/prove');
const kept = join(root, 'build/prove');
const ENDING = '.test.ts';
const SEED_MAX = 1_000_000_000;
/** Of one run: each is a test of its own. */
const TRIALS_MAX = 10_000;
const MS_PER_MINUTE = 60_000;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: 'string' },
    minutes: { type: 'string', default: '10' },
    trials: { type: 'string' },
    from: { type: 'string' },
    fresh: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
  },
});

const known = readdirSync(campaigns)
  .filter((file) => file.endsWith(ENDING))
  .map((file) => file.slice(0, -ENDING.length));

if (values.list || positionals.length === 0) {
  console.log(known.join('\n'));
} else {
  mkdirSync(kept, { recursive: true });
  const results = positionals.map(prove);
  process.exitCode = results.every(Boolean) ? 0 : 1;
}

/** Whether all that is known of it, also from earlier runs, is clean. */
function prove(name: string): boolean {
  if (!known.includes(name)) {
    console.error(`there is no campaign ${name}; there are: ${known.join(', ')}`);
    return false;
  }
  const file = join(kept, `${name}.jsonl`);
  if (values.fresh) rmSync(file, { force: true });
  const before = readLines(file);
  const last = before.at(-1);
  const seed = count('seed') ?? (last === undefined ? randomInt(SEED_MAX) : last.seed - last.index);
  const from = count('from') ?? (last === undefined ? 0 : last.index + 1);
  const trials = Math.min(count('trials') ?? TRIALS_MAX, TRIALS_MAX);
  const untilMs = Date.now() + (count('minutes') ?? 0) * MS_PER_MINUTE;
  const asked: Asked = { seed, from, trials, untilMs, file };
  console.log(`${name}: seed ${seed}, from trial ${from}`);
  const { status } = spawnSync('tools/test', [`test/prove/${name}${ENDING}`], {
    cwd: root,
    env: { ...process.env, DUCTILE_PROVE: JSON.stringify(asked) },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  return tell(name, readLines(file)) && status === 0;
}

function tell(name: string, lines: readonly TrialLine[]): boolean {
  const summary = summarize(lines);
  const text = describe(name, summary);
  writeFileSync(join(kept, `${name}.json`), `${JSON.stringify(summary, undefined, 2)}\n`);
  writeFileSync(join(kept, `${name}.txt`), `${text}\n`);
  console.log(text);
  return summary.trials > 0 && summary.faults.length === 0;
}

function readLines(file: string): TrialLine[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as TrialLine);
}

function count(option: 'seed' | 'minutes' | 'trials' | 'from'): number | undefined {
  const value = values[option];
  if (value === undefined) return undefined;
  const number = Number(value);
  if (Number.isFinite(number) && number >= 0) return number;
  throw new Error(`--${option} must be a number, not ${value}`);
}
