/**
 * Runs tests repeatedly with one file changed in memory; no file on disk is changed. It is a process of
 * its own, because a mutant may never end.
 */
import { createVitest, type TestModule, type TestSpecification, type Vitest } from 'vitest/node';

/** First argument of this process. `whole` starts the databases for tests that need them. */
export type Scale = 'unit' | 'whole';

/** The request over the channel to the parent process. */
export interface Task {
  /** Absolute. */
  readonly file: string;
  readonly tests: readonly string[];
  /** Only tests with SQLite in their name run. */
  readonly isSqliteOnly: boolean;
  /** The changed content of the file; undefined for the original, which must pass. */
  readonly text: string | undefined;
}

export interface TaskResult {
  /** `unclear`: no test failed, but not all passed, for example because a worker didn't start. */
  readonly verdict: 'passed' | 'noticed' | 'unclear';
  /** The test file that noticed. */
  readonly by: string | undefined;
}

let text: string | undefined;
let target = '';
const vitest = await open();
const found = new Map<string, readonly TestSpecification[]>();

process.on('message', (task: Task) => {
  void run(task).then((result) => process.send?.(result));
});
// The parent has ended.
process.on('disconnect', () => process.exit());
process.send?.('ready');

async function open(): Promise<Vitest> {
  return await createVitest(
    'test',
    {
      root: process.cwd(),
      // Projects of the usual configuration wouldn't get the plugin.
      config: false,
      include: ['test/**/*.test.ts'],
      setupFiles: ['test/support/leaks.ts'],
      globalSetup: [
        'test/support/ledger-file.ts',
        ...(process.argv[2] === 'whole' ? ['test/support/postgres-server.ts'] : []),
      ],
      // The cache would return the unchanged file.
      fsModuleCache: false,
      pool: 'forks',
      isolate: false,
      fileParallelism: false,
      // The first failure is enough.
      bail: 1,
      // A slow test must not count as one that noticed the mutant.
      testTimeout: 30_000,
      hookTimeout: 60_000,
      watch: false,
      reporters: [{}],
    },
    {
      plugins: [
        {
          name: 'mutant',
          enforce: 'pre',
          load: (id) => (id === target ? text : undefined),
        },
      ],
    },
  );
}

async function run({ file, tests, isSqliteOnly, text: replacement }: Task): Promise<TaskResult> {
  const before = target;
  target = file;
  text = replacement;
  for (const changed of [before, file]) if (changed !== '') vitest.invalidateFile(changed);
  if (isSqliteOnly) vitest.setGlobalTestNamePattern(/sqlite/i);
  else vitest.resetGlobalTestNamePattern();
  const key = tests.join(' ');
  const specifications = found.get(key) ?? (await vitest.globTestSpecifications([...tests]));
  found.set(key, specifications);
  const ran = await vitest.runTestSpecifications([...specifications]);
  // The result contains modules of earlier runs with their old results.
  const requested = new Set(specifications.map(({ moduleId }) => moduleId));
  const testModules = ran.testModules.filter(({ moduleId }) => requested.has(moduleId));
  const noticing = testModules.find(hasFailed);
  if (noticing !== undefined) return { verdict: 'noticed', by: noticing.relativeModuleId };
  const isWhole = testModules.length === specifications.length && testModules.every(hasPassed);
  const verdict = isWhole && ran.unhandledErrors.length === 0 ? 'passed' : 'unclear';
  return { verdict, by: undefined };
}

/** True if a test failed or the file couldn't be loaded, but not if no worker started. */
function hasFailed(module: TestModule): boolean {
  if (module.errors().some(({ message }) => !message.includes('[vitest-pool'))) return true;
  return [...module.children.allTests('failed')].length > 0;
}

function hasPassed(module: TestModule): boolean {
  return module.ok();
}
