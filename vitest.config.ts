import { defineConfig } from 'vitest/config';
import Sequence from './tools/sequence.ts';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    pool: 'forks',
    // One more than two cores can do: many tests wait for a disk or for a process to end.
    maxWorkers: 3,
    sequence: { sequencer: Sequence },
    testTimeout: 30_000,
    hookTimeout: 60_000,
    globalSetup: ['test/support/postgres-server.ts'],
    setupFiles: ['test/support/leaks.ts'],
    reporters: ['default', './tools/reporter.ts'],
  },
});
