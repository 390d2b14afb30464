import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    globalSetup: ['test/support/postgres-server.ts'],
    setupFiles: ['test/support/leaks.ts'],
    reporters: ['default', './tools/reporter.ts'],
  },
});
