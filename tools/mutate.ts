/**
 * `npm run mutate -- FILES`: makes one small change (a mutant) at a time and runs the tests. A mutant
 * that no test notices survives, and shows what the tests don't check. `--tests A,B --tests C` chooses
 * the tests: mutants that survive A and B are tried with C. `--sqlite` leaves out tests on PostgreSQL,
 * and `--every N` tries only every Nth mutant. Results are appended to build/mutate.jsonl, one line for
 * each file. `--again` tries only the survivors of the last run.
 */
import { appendFileSync, mkdirSync, readFileSync } from 'node:fs';
import { fork, type ChildProcess } from 'node:child_process';
import { join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { API } from 'typescript/unstable/sync';
import { findTests } from './mutation/find-tests.ts';
import { applyMutant, findMutants, type Mutant } from './mutation/mutants.ts';
import type { TaskResult, Scale, Task } from './mutation/runner.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
/** A mutant that never ends is stopped after this time, plus a multiple of the tests' usual time. */
const TIMEOUT_MS = 15_000;
const TIMEOUT_FACTOR = 4;
const record = join(root, 'build/mutate.jsonl');
const TRIES = 3;
const CLOCK = 'the clock';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    tests: { type: 'string', multiple: true },
    sqlite: { type: 'boolean', default: false },
    every: { type: 'string', default: '1' },
    again: { type: 'boolean', default: false },
  },
});

interface MutationResult {
  readonly file: string;
  readonly mutants: number;
  /** The sampling rate: one of so many is tried. */
  readonly every: number;
  readonly killed: number;
  /** Mutants that were noticed because they never ended. */
  readonly endless: number;
  readonly survivors: readonly Mutant[];
  readonly ms: number;
}

let runner: { readonly child: ChildProcess; readonly scale: Scale } | undefined;
const files = positionals.map((path) => relative(root, resolve(path)));
const all = readMutants(files);
for (const [file, read] of all) report(await mutate(file, read));
stopRunner();

interface SourceMutants {
  /** The text at the start: the file may change meanwhile. */
  readonly text: string;
  readonly mutants: readonly Mutant[];
}

function readMutants(wanted: readonly string[]): Map<string, SourceMutants> {
  const api = new API({ cwd: root });
  try {
    const [project] = api
      .updateSnapshot({ openProjects: [join(root, 'tsconfig.json')] })
      .getProjects();
    return new Map(
      wanted.map((file) => {
        const source = project?.program.getSourceFile(join(root, file));
        if (source === undefined) throw new Error(`${file} is not a source of this project`);
        const isSampled = (_: Mutant, index: number): boolean => index % Number(values.every) === 0;
        return [file, { text: source.text, mutants: findMutants(source).filter(isSampled) }];
      }),
    );
  } finally {
    api.close();
  }
}

async function mutate(file: string, { text, mutants }: SourceMutants): Promise<MutationResult> {
  const began = performance.now();
  const rounds = values.tests?.map((round) => round.split(',')) ?? findTests(root, file);
  if (rounds.length === 0) throw new Error(`no tests belong to ${file}; name some with --tests`);
  let left = values.again ? survivorsOf(file, mutants) : mutants;
  let endless = 0;
  for (const tests of rounds) {
    const runTests = await prepareTests(file, tests);
    const survivors: Mutant[] = [];
    for (const mutant of left) {
      const { verdict, by } = await runTests(applyMutant(text, mutant));
      if (verdict !== 'noticed') survivors.push(mutant);
      if (by === CLOCK) endless += 1;
    }
    left = survivors;
    console.error(`${file}: ${left.length} of ${mutants.length} left by ${tests.join(' ')}`);
  }
  return {
    file,
    mutants: mutants.length,
    every: Number(values.every),
    killed: mutants.length - left.length,
    endless,
    survivors: left,
    ms: Math.round(performance.now() - began),
  };
}

type RunTests = (text: string | undefined, timeoutMs?: number) => Promise<TaskResult>;

/** Runs the tests on the unchanged file, and derives the timeout from their duration. */
async function prepareTests(file: string, tests: readonly string[]): Promise<RunTests> {
  const isUnit = tests.every((path) => path.endsWith('.unit.test.ts'));
  const scale = isUnit || values.sqlite ? 'unit' : 'whole';
  const task = { file: join(root, file), tests, isSqliteOnly: values.sqlite && !isUnit };
  const runTests: RunTests = (text, timeoutMs = 20 * TIMEOUT_MS) =>
    runWithRetry({ ...task, text }, scale, timeoutMs);
  const began = performance.now();
  const { verdict, by } = await runTests(undefined);
  if (verdict !== 'passed') {
    throw new Error(`as it is, ${file} is ${verdict} in ${by ?? tests.join(' ')}`);
  }
  const timeoutMs = TIMEOUT_MS + TIMEOUT_FACTOR * (performance.now() - began);
  return (text) => runTests(text, timeoutMs);
}

/** The survivors of the last run; the file must be unchanged since then. */
function survivorsOf(file: string, mutants: readonly Mutant[]): readonly Mutant[] {
  const lines = readFileSync(record, 'utf8').trim().split('\n');
  const found = lines.map((line) => JSON.parse(line) as MutationResult);
  const last = found.findLast((one) => one.file === file);
  if (last === undefined) throw new Error(`nothing is known of ${file} yet`);
  const before = new Set(last.survivors.map(keyOf));
  const left = mutants.filter((mutant) => before.has(keyOf(mutant)));
  if (left.length !== last.survivors.length) throw new Error(`${file} is not what it was`);
  return left;
}

function keyOf({ start, end, replacement }: Mutant): string {
  return JSON.stringify([start, end, replacement]);
}

/** Runs the tests, and repeats an unclear run in another process. */
async function runWithRetry(task: Task, scale: Scale, timeoutMs: number): Promise<TaskResult> {
  for (let left = TRIES; ; left -= 1) {
    const result = await runOnce(task, scale, timeoutMs);
    if (result.verdict !== 'unclear' || left <= 1) return result;
    stopRunner();
  }
}

/** Runs the tests once. A mutant that doesn't end in time counts as noticed, and its process is killed. */
async function runOnce(task: Task, scale: Scale, timeoutMs: number): Promise<TaskResult> {
  if (runner?.scale !== scale) stopRunner();
  const { child } = (runner ??= { child: await startRunner(scale), scale });
  const { promise, resolve: result } = Promise.withResolvers<TaskResult>();
  const late = setTimeout(() => {
    stopRunner();
    result({ verdict: 'noticed', by: CLOCK });
  }, timeoutMs);
  child.once('message', (message) => result(message as TaskResult));
  child.send(task);
  try {
    return await promise;
  } finally {
    clearTimeout(late);
    child.removeAllListeners('message');
  }
}

async function startRunner(scale: Scale): Promise<ChildProcess> {
  // A process group of its own, so that its workers are killed with it.
  const child = fork(join(root, 'tools/mutation/runner.ts'), [scale], {
    cwd: root,
    detached: true,
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  await new Promise<void>((ready, failed) => {
    child.once('message', () => ready());
    child.once('exit', (code) => failed(new Error(`the runner ended with ${code}`)));
  });
  child.removeAllListeners('exit');
  return child;
}

function stopRunner(): void {
  const pid = runner?.child.pid;
  runner = undefined;
  if (pid !== undefined) process.kill(-pid, 'SIGKILL');
}

function report(found: MutationResult): void {
  const { file, mutants, every, killed, endless, survivors, ms } = found;
  const of = every === 1 ? `${mutants}` : `${mutants} (1 of ${every})`;
  const score = mutants === 0 ? 100 : Math.round((killed / mutants) * 1000) / 10;
  const never = endless === 0 ? '' : `, ${endless} by never ending`;
  console.log(
    `${file}: ${killed} of ${of} noticed (${score} %)${never} in ${Math.round(ms / 1000)} s`,
  );
  for (const { line, change } of survivors) console.log(`  ${file}:${line}  ${change}`);
  mkdirSync(join(root, 'build'), { recursive: true });
  appendFileSync(record, `${JSON.stringify({ ...found, score })}\n`);
}
