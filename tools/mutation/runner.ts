/**
 * Runs tests again and again with one file changed in memory: no file on disk is touched. It is a
 * process of its own, because a mutant may never end.
 */
import { createVitest, type TestModule, type TestSpecification, type Vitest } from 'vitest/node';

/** With the databases of the tests, for those that need them; named by its first argument. */
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

export interface Answer {
  /** `unclear`: no test failed, and yet not all passed, as when a machine is too busy for a worker. */
  readonly verdict: 'passed' | 'noticed' | 'unclear';
  /** The test file that noticed. */
  readonly by: string | undefined;
}

let text: string | undefined;
let target = '';
const vitest = await open();
const found = new Map<string, readonly TestSpecification[]>();

process.on('message', (task: Task) => {
  void run(task).then((answer) => process.send?.(answer));
});
// The parent is gone.
process.on('disconnect', () => process.exit());
process.send?.('ready');

async function open(): Promise<Vitest> {
  return await createVitest(
    'test',
    {
      root: process.cwd(),
      // Projects of the usual configuration would not have the plugin.
      config: false,
      include: ['test/**/*.test.ts'],
      setupFiles: ['test/support/leaks.ts'],
      globalSetup: [
        'test/support/ledger-file.ts',
        ...(process.argv[2] === 'whole' ? ['test/support/postgres-server.ts'] : []),
      ],
      // It would answer with the file as it is on disk.
      fsModuleCache: false,
      pool: 'forks',
      isolate: false,
      fileParallelism: false,
      // The first failure is enough.
      bail: 1,
      // A test that is only slow has noticed nothing.
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

async function run({ file, tests, isSqliteOnly, text: instead }: Task): Promise<Answer> {
  const before = target;
  target = file;
  text = instead;
  for (const changed of [before, file]) if (changed !== '') vitest.invalidateFile(changed);
  if (isSqliteOnly) vitest.setGlobalTestNamePattern(/sqlite/i);
  else vitest.resetGlobalTestNamePattern();
  const key = tests.join(' ');
  const specifications = found.get(key) ?? (await vitest.globTestSpecifications([...tests]));
  found.set(key, specifications);
  const ran = await vitest.runTestSpecifications([...specifications]);
  // The modules of earlier runs are among them, with their old results.
  const asked = new Set(specifications.map(({ moduleId }) => moduleId));
  const testModules = ran.testModules.filter(({ moduleId }) => asked.has(moduleId));
  const noticing = testModules.find(hasFailed);
  if (noticing !== undefined) return { verdict: 'noticed', by: noticing.relativeModuleId };
  const isWhole = testModules.length === specifications.length && testModules.every(isSound);
  const verdict = isWhole && ran.unhandledErrors.length === 0 ? 'passed' : 'unclear';
  return { verdict, by: undefined };
}

/** A test did, or the file could not even be loaded; that no worker could be started is neither. */
function hasFailed(module: TestModule): boolean {
  if (module.errors().some(({ message }) => !message.includes('[vitest-pool'))) return true;
  return [...module.children.allTests('failed')].length > 0;
}

function isSound(module: TestModule): boolean {
  return module.ok();
}
