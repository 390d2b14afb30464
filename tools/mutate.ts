/**
 * `npm run mutate -- FILES`: tells lies in the code, one at a time, and sees whether a test notices.
 * A survivor is a line that nothing proves. `--tests A,B --tests C` names other tests than those that
 * belong: what survives A and B meets C. `--sqlite` leaves out what they ask of PostgreSQL, and
 * `--every N` tells only every Nth lie. What is found goes to build/mutate.jsonl too, a line for each
 * file; `--again` tells only those once more that survived the last time.
 */
import { appendFileSync, mkdirSync, readFileSync } from 'node:fs';
import { fork, type ChildProcess } from 'node:child_process';
import { join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { API } from 'typescript/unstable/sync';
import { testsOf } from './mutation/belonging.ts';
import { applyMutant, findMutants, type Mutant } from './mutation/mutants.ts';
import type { Answer, Scale, Task } from './mutation/runner.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
/** A mutant that loops for ever is noticed by whoever waits for it; beside what the tests take anyway. */
const PATIENCE_MS = 15_000;
const PATIENCE_TIMES = 4;
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

interface Found {
  readonly file: string;
  readonly mutants: number;
  /** The sampling rate: one of so many is tried. */
  readonly every: number;
  readonly killed: number;
  /** The mutants that were caught because they never ended. */
  readonly endless: number;
  readonly survivors: readonly Mutant[];
  readonly ms: number;
}

let runner: { readonly child: ChildProcess; readonly scale: Scale } | undefined;
const files = positionals.map((path) => relative(root, resolve(path)));
const all = readMutants(files);
for (const [file, read] of all) tell(await mutate(file, read));
stopRunner();

interface Read {
  /** Kept: others may change the file meanwhile. */
  readonly text: string;
  readonly mutants: readonly Mutant[];
}

function readMutants(wanted: readonly string[]): Map<string, Read> {
  const api = new API({ cwd: root });
  try {
    const [project] = api
      .updateSnapshot({ openProjects: [join(root, 'tsconfig.json')] })
      .getProjects();
    return new Map(
      wanted.map((file) => {
        const source = project?.program.getSourceFile(join(root, file));
        if (source === undefined) throw new Error(`${file} is not a source of this project`);
        const isTold = (_: Mutant, index: number): boolean => index % Number(values.every) === 0;
        return [file, { text: source.text, mutants: findMutants(source).filter(isTold) }];
      }),
    );
  } finally {
    api.close();
  }
}

async function mutate(file: string, { text, mutants }: Read): Promise<Found> {
  const began = performance.now();
  const rounds = values.tests?.map((round) => round.split(',')) ?? testsOf(root, file);
  if (rounds.length === 0) throw new Error(`no tests belong to ${file}; name some with --tests`);
  let left = values.again ? survivorsOf(file, mutants) : mutants;
  let endless = 0;
  for (const tests of rounds) {
    const judge = await makeJudge(file, tests);
    const survivors: Mutant[] = [];
    for (const mutant of left) {
      const { verdict, by } = await judge(applyMutant(text, mutant));
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

type Judge = (text: string | undefined, patienceMs?: number) => Promise<Answer>;

/** Sees that the file as it is passes, and how long that takes. */
async function makeJudge(file: string, tests: readonly string[]): Promise<Judge> {
  const isUnit = tests.every((path) => path.endsWith('.unit.test.ts'));
  const scale = isUnit || values.sqlite ? 'unit' : 'whole';
  const task = { file: join(root, file), tests, isSqliteOnly: values.sqlite && !isUnit };
  const judge: Judge = (text, patienceMs = 20 * PATIENCE_MS) =>
    ask({ ...task, text }, scale, patienceMs);
  const began = performance.now();
  const { verdict, by } = await judge(undefined);
  if (verdict !== 'passed') {
    throw new Error(`as it is, ${file} is ${verdict} in ${by ?? tests.join(' ')}`);
  }
  const patienceMs = PATIENCE_MS + PATIENCE_TIMES * (performance.now() - began);
  return (text) => judge(text, patienceMs);
}

/** The survivors of the last run; the file must be unchanged since then. */
function survivorsOf(file: string, mutants: readonly Mutant[]): readonly Mutant[] {
  const lines = readFileSync(record, 'utf8').trim().split('\n');
  const found = lines.map((line) => JSON.parse(line) as Found);
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

/** An unclear verdict is repeated in another process. */
async function ask(task: Task, scale: Scale, patienceMs: number): Promise<Answer> {
  for (let left = TRIES; ; left -= 1) {
    const answer = await askOnce(task, scale, patienceMs);
    if (answer.verdict !== 'unclear' || left <= 1) return answer;
    stopRunner();
  }
}

/** A mutant that does not respond in time has been noticed; its process is killed. */
async function askOnce(task: Task, scale: Scale, patienceMs: number): Promise<Answer> {
  if (runner?.scale !== scale) stopRunner();
  const { child } = (runner ??= { child: await startRunner(scale), scale });
  const { promise, resolve: answer } = Promise.withResolvers<Answer>();
  const late = setTimeout(() => {
    stopRunner();
    answer({ verdict: 'noticed', by: CLOCK });
  }, patienceMs);
  child.once('message', (message) => answer(message as Answer));
  child.send(task);
  try {
    return await promise;
  } finally {
    clearTimeout(late);
    child.removeAllListeners('message');
  }
}

async function startRunner(scale: Scale): Promise<ChildProcess> {
  // A group of its own: its workers go with it.
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

function tell(found: Found): void {
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
