import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { messageOf } from '../src/base/errors.ts';
import { loadArms } from './arms.ts';
import { makeRandom, runTable, type Line, type Row, type Table } from './frame.ts';
import { describeMachine } from './machine.ts';
import { writePage, type Section } from './page.ts';
import { stopPostgres } from './postgres.ts';
import { killPrograms } from './program.ts';
import { columns, toCells, toText } from './report.ts';
import { tables } from './rows.ts';
import { scale, settings } from './settings.ts';

const usage = `usage: tools/bench [--rows 1,2,8] [--reps N | --quick] [--seed N]
  --rows   only these rows of bench/rows.ts; 8 means 8a and 8b
  --reps   repetitions of each arm (${settings.repetitions})
  --quick  ${settings.repetitionsQuick} repetitions; the page of results is left alone
  --seed   order of the arms, to repeat a run`;

const PAGE = fileURLToPath(new URL('../docs/internals/benchmarks.md', import.meta.url));

interface Options {
  readonly rows: readonly string[] | undefined;
  readonly reps: number | undefined;
  readonly seed: number;
}

process.exitCode = await main();

async function main(): Promise<number> {
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      stop.abort(new Error(`stopped by ${signal}`));
      killPrograms();
    });
  }
  try {
    return await bench(readOptions(), stop.signal);
  } catch (error) {
    console.error(messageOf(error));
    return 1;
  } finally {
    await stopPostgres();
  }
}

/** Returns 1 if an arm failed. A missed goal isn't a failure. */
async function bench(options: Options, signal: AbortSignal): Promise<number> {
  const arms = await loadArms();
  const random = makeRandom(options.seed);
  const repetitionsOf = (row: Row): number => options.reps ?? row.reps ?? settings.repetitions;
  console.log(`seed ${options.seed}`);
  const sections: Section[] = [];
  let failed = false;
  for (const table of select(options.rows)) {
    console.log(`\n${table.title}`);
    const frame = { arms, repetitionsOf, random, log: console.log, signal };
    const lines = await runTable(table, frame);
    console.log(`\n${toText([columns, ...lines.map((line) => toCells(line).cells)])}`);
    failed ||= lines.some((line) => line.failed);
    sections.push({ title: table.title, rows: lines.filter(isWorthKeeping).map(toCells) });
  }
  await finish(options, sections);
  return failed ? 1 : 0;
}

async function finish({ reps, seed }: Options, sections: readonly Section[]): Promise<void> {
  const machine = await describeMachine();
  console.log(`\n${[...machine.identity, ...machine.notes].join('\n')}`);
  if (scale !== 1 || (reps !== undefined && reps < settings.repetitions)) return;
  const date = new Date().toISOString().slice(0, 10);
  await writePage(PAGE, { machine, date, seed, sections });
}

/** True for lines of the page. Failures are only printed. */
function isWorthKeeping(line: Line): boolean {
  return line.ratios.length > 0 || (line.judged && !line.failed);
}

function select(ids: readonly string[] | undefined): Table[] {
  const isSelected = (row: Row): boolean =>
    ids === undefined || ids.includes(row.id) || ids.includes(row.id.replace(/[a-z]$/, ''));
  const chosen = tables
    .map((table) => ({ ...table, rows: table.rows.filter(isSelected) }))
    .filter(({ rows }) => rows.length > 0);
  if (chosen.length === 0) throw new Error(`no such row\n${usage}`);
  return chosen;
}

function readOptions(): Options {
  const { values } = parseArgs({
    options: {
      rows: { type: 'string' },
      reps: { type: 'string' },
      quick: { type: 'boolean', default: false },
      seed: { type: 'string' },
    },
  });
  const reps = values.quick ? settings.repetitionsQuick : toCount(values.reps);
  return { rows: values.rows?.split(','), reps, seed: toCount(values.seed) ?? Date.now() % 1e6 };
}

function toCount(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const count = Number(text);
  if (!Number.isSafeInteger(count) || count < 1) throw new Error(`not a count: ${text}\n${usage}`);
  return count;
}
