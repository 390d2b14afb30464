/**
 * Runs campaigns of test/prove: `npm run prove -- NAME… [--seed N] [--minutes N] [--trials N] [--from N]`,
 * `npm run prove -- --list`. A stopped campaign continues after its last trial; `--fresh` starts over.
 * `--at-once N` runs N trials in parallel, for campaigns that mostly wait.
 * Every trial is a line in build/prove/NAME.jsonl; NAME.json and NAME.txt are the summary.
 */
import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { CampaignRequest } from '../test/prove/support/campaign.ts';
import { describe, summarize, type TrialLine } from '../test/prove/support/report.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const campaigns = join(root, 'test/prove');
const results = join(root, 'build/prove');
const ENDING = '.test.ts';
const SEED_MAX = 1_000_000_000;
/** The limit of one run: each trial is a test of its own. */
const TRIALS_MAX = 10_000;
const MS_PER_MINUTE = 60_000;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: 'string' },
    minutes: { type: 'string', default: '10' },
    trials: { type: 'string' },
    from: { type: 'string' },
    'at-once': { type: 'string', default: '1' },
    fresh: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h', default: false },
  },
});
const USAGE = `npm run prove -- NAME… [--seed N] [--minutes N] [--trials N] [--from N] [--at-once N] [--fresh]
npm run prove -- --list`;

const campaignNames = readdirSync(campaigns)
  .filter((file) => file.endsWith(ENDING))
  .map((file) => file.slice(0, -ENDING.length));

if (values.help) {
  console.log(USAGE);
} else if (values.list || positionals.length === 0) {
  console.log(campaignNames.join('\n'));
} else {
  mkdirSync(results, { recursive: true });
  for (const name of positionals) if (!(await prove(name))) process.exitCode = 1;
}

/** Returns true if all known results are clean, including those of earlier runs. */
async function prove(name: string): Promise<boolean> {
  if (!campaignNames.includes(name)) {
    console.error(`there is no campaign ${name}; there are: ${campaignNames.join(', ')}`);
    return false;
  }
  const file = join(results, `${name}.jsonl`);
  if (values.fresh) rmSync(file, { force: true });
  const { seed, from } = findStart(readLines(file));
  const trials = Math.min(count('trials') ?? TRIALS_MAX, TRIALS_MAX);
  const untilMs = Date.now() + (count('minutes') ?? 0) * MS_PER_MINUTE;
  const lanes = Math.min(Math.max(1, Math.floor(count('at-once') ?? 1)), trials);
  console.log(`${name}: seed ${seed}, from trial ${from}`);
  const runs = Array.from({ length: lanes }, (_, lane) =>
    run(name, {
      seed,
      from: from + lane,
      step: lanes,
      trials: Math.ceil((trials - lane) / lanes),
      untilMs,
      file,
    }),
  );
  const areGreen = (await Promise.all(runs)).every(Boolean);
  return report(name, readLines(file)) && areGreen;
}

/** Returns the seed and the number of the next trial. */
function findStart(lines: readonly TrialLine[]): Pick<CampaignRequest, 'seed' | 'from'> {
  const last = lines.at(-1);
  const seed = count('seed') ?? (last === undefined ? randomInt(SEED_MAX) : last.seed - last.index);
  // Parallel trials don't end in order.
  const behind = lines.reduce((next, { index }) => Math.max(next, index + 1), 0);
  return { seed, from: count('from') ?? behind };
}

/** Runs trials in a process with its own database. */
async function run(name: string, request: CampaignRequest): Promise<boolean> {
  const child = spawn('tools/test', [`test/prove/${name}${ENDING}`], {
    cwd: root,
    env: { ...process.env, DUCTILE_PROVE: JSON.stringify(request) },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const [status] = (await once(child, 'close')) as [number | null];
  return status === 0;
}

function report(name: string, lines: readonly TrialLine[]): boolean {
  const summary = summarize(lines);
  const text = describe(name, summary);
  writeFileSync(join(results, `${name}.json`), `${JSON.stringify(summary, undefined, 2)}\n`);
  writeFileSync(join(results, `${name}.txt`), `${text}\n`);
  console.log(text);
  return summary.trials > 0 && summary.faults.length === 0;
}

function readLines(file: string): TrialLine[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as TrialLine);
}

function count(option: 'seed' | 'minutes' | 'trials' | 'from' | 'at-once'): number | undefined {
  const value = values[option];
  if (value === undefined) return undefined;
  const number = Number(value);
  if (Number.isFinite(number) && number >= 0) return number;
  throw new Error(`--${option} must be a number, not ${value}`);
}
