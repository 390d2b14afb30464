import { defineConfig } from 'vitest/config';
import Sequence from './tools/sequence.ts';

const units = 'test/unit/**/*.test.ts';
const crashes = 'test/crash/**/*.test.ts';
/** They put something in the place of a module, which must not have been loaded before. */
const replacing = [
  'test/conformance/{checkpoint,fault-sqlite,sqlite-file}.test.ts',
  'test/engine/tenant-keeper.test.ts',
  'test/plugins/http-fetch-guard.test.ts',
];
const withPostgres = { globalSetup: ['test/support/postgres-server.ts'] };

export default defineConfig({
  test: {
    pool: 'forks',
    // One more than two cores can do: many tests wait for a disk or for a process to end.
    maxWorkers: 3,
    sequence: { sequencer: Sequence },
    testTimeout: 30_000,
    hookTimeout: 60_000,
    setupFiles: ['test/support/leaks.ts'],
    reporters: ['default', './tools/reporter.ts'],
    // What a file needs at its end is asked for with `atEnd`, so a worker may run many of them.
    isolate: false,
    projects: [
      { extends: true, test: { name: 'crash', include: [crashes], ...withPostgres } },
      {
        extends: true,
        test: {
          name: 'whole',
          include: ['test/**/*.test.ts'],
          exclude: [units, crashes, ...replacing],
          ...withPostgres,
        },
      },
      {
        extends: true,
        test: { name: 'alone', include: replacing, isolate: true, ...withPostgres },
      },
      { extends: true, test: { name: 'unit', include: [units] } },
    ],
  },
});
