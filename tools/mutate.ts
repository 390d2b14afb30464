/**
 * `npm run mutate -- FILES`: tells lies in the code, one at a time, and sees whether a test notices.
 * A survivor is a line that nothing proves. `--tests A,B --tests C` names other tests than those that
 * belong: what survives A and B meets C.
 * What is found goes to build/mutate.jsonl too, a line for each file.
 */
import { appendFileSync, mkdirSync } from 'node:fs';
import { fork, type ChildProcess } from 'node:child_process';
import { join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { API } from 'typescript/unstable/sync';
import { testsOf } from './mutation/belonging.ts';
import { findMutants, type Mutant } from './mutation/mutants.ts';
import type { Answer, Scale, Task } from './mutation/runner.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
/** A mutant that loops for ever is noticed by whoever waits for it. */
const PATIENCE_MS = 60_000;
const TRIES = 3;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { tests: { type: 'string', multiple: true } },
});

interface Found {
  readonly file: string;
  readonly mutants: number;
  readonly killed: number;
  readonly survivors: readonly Mutant[];
  readonly ms: number;
}

let runner: { readonly child: ChildProcess; readonly scale: Scale } | undefined;
const files = positionals.map((path) => relative(root, resolve(path)));
const all = readMutants(files);
for (const file of files) tell(await mutate(file, all.get(file) ?? []));
stopRunner();

function readMutants(wanted: readonly string[]): Map<string, Mutant[]> {
  const api = new API({ cwd: root });
  try {
    const [project] = api
      .updateSnapshot({ openProjects: [join(root, 'tsconfig.json')] })
      .getProjects();
    return new Map(
      wanted.map((file) => {
        const source = project?.program.getSourceFile(join(root, file));
        if (source === undefined) throw new Error(`${file} is not a source of this project`);
        return [file, findMutants(source)];
      }),
    );
  } finally {
    api.close();
  }
}

async function mutate(file: string, mutants: readonly Mutant[]): Promise<Found> {
  const began = performance.now();
  const rounds = values.tests?.map((round) => round.split(',')) ?? testsOf(root, file);
  if (rounds.length === 0) throw new Error(`no tests belong to ${file}; name some with --tests`);
  let left = mutants;
  for (const tests of rounds) {
    const sound = await ask({ file: join(root, file), tests, mutant: undefined });
    if (sound.verdict !== 'passed')
      throw new Error(`as it is, ${file} is ${sound.verdict} in ${sound.by ?? tests.join(' ')}`);
    const survivors: Mutant[] = [];
    for (const mutant of left) {
      const { verdict } = await ask({ file: join(root, file), tests, mutant });
      if (verdict !== 'noticed') survivors.push(mutant);
    }
    left = survivors;
  }
  const found = { file, mutants: mutants.length, killed: mutants.length - left.length };
  return { ...found, survivors: left, ms: Math.round(performance.now() - began) };
}

/** What is unclear is asked again, of another process. */
async function ask(task: Task): Promise<Answer> {
  for (let left = TRIES; ; left -= 1) {
    const answer = await askOnce(task);
    if (answer.verdict !== 'unclear' || left <= 1) return answer;
    stopRunner();
  }
}

/** One that does not answer in time has been noticed; its process is given up. */
async function askOnce(task: Task): Promise<Answer> {
  const scale = task.tests.every((path) => path.startsWith('test/unit/')) ? 'unit' : 'whole';
  if (runner?.scale !== scale) stopRunner();
  const { child } = (runner ??= { child: await startRunner(scale), scale });
  const { promise, resolve: answer } = Promise.withResolvers<Answer>();
  const late = setTimeout(() => {
    stopRunner();
    answer({ verdict: 'noticed', by: 'the clock' });
  }, PATIENCE_MS);
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
  const { file, mutants, killed, survivors, ms } = found;
  const score = mutants === 0 ? 100 : Math.round((killed / mutants) * 1000) / 10;
  console.log(
    `${file}: ${killed} of ${mutants} noticed (${score} %) in ${Math.round(ms / 1000)} s`,
  );
  for (const { line, change } of survivors) console.log(`  ${file}:${line}  ${change}`);
  mkdirSync(join(root, 'build'), { recursive: true });
  appendFileSync(join(root, 'build/mutate.jsonl'), `${JSON.stringify({ ...found, score })}\n`);
}
