import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { core, COUNTING } from './tools/core.ts';
import Sequence from './tools/sequence.ts';

// The ending of a file says which project runs it; a file without one is in `whole`.
const units = 'test/**/*.unit.test.ts';
const ledgers = 'test/**/*.ledger.test.ts';
const crashes = 'test/**/*.crash.test.ts';
/** Tests that mock a module, which must not be loaded before. */
const alone = 'test/**/*.alone.test.ts';
const withPostgres = { globalSetup: ['test/support/postgres-server.ts'] };
const counted = { env: { [COUNTING]: 'yes' } };

export default defineConfig({
  test: {
    pool: 'forks',
    // One more than two cores can do: many tests wait for a disk or for a process to end.
    maxWorkers: 3,
    sequence: { sequencer: Sequence },
    testTimeout: 300_000,
    hookTimeout: 300_000,
    // Hundreds of programs are started that Node would otherwise compile each time.
    env: { NODE_COMPILE_CACHE: join(import.meta.dirname, 'build/compile-cache') },
    setupFiles: ['test/support/leaks.ts'],
    globalSetup: ['test/support/ledger-file.ts'],
    reporters: ['default', './tools/branches.ts', './tools/reporter.ts'],
    // What a file needs at its end is asked for with `atEnd`, so a worker may run many of them.
    isolate: false,
    coverage: {
      provider: 'custom',
      customProviderModule: './tools/coverage.ts',
      include: Object.keys(core),
      thresholds: Object.fromEntries(
        Object.entries(core).map(([files, branches]) => [files, { branches }]),
      ),
      reporter: ['json-summary'],
      reportsDirectory: 'build/coverage',
    },
    projects: [
      { extends: true, test: { name: 'crash', include: [crashes], ...withPostgres } },
      {
        extends: true,
        test: {
          name: 'whole',
          include: ['test/**/*.test.ts'],
          exclude: [units, ledgers, crashes, alone],
          ...withPostgres,
        },
      },
      {
        extends: true,
        test: { name: 'ledger', include: [ledgers], ...withPostgres, ...counted },
      },
      {
        extends: true,
        test: { name: 'alone', include: [alone], isolate: true, ...withPostgres },
      },
      { extends: true, test: { name: 'unit', include: [units], ...counted } },
    ],
  },
});
