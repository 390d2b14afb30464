import type { Reporter, SerializedError, TestModule } from 'vitest/node';

/**
 * Ends the output with a line `N passed, N failed`. Failures outside of tests (a file that doesn't load,
 * a suite's setup, an unhandled rejection) are counted as failed.
 */
export default class CountReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    const count = { passed: 0, failed: unhandled.length, skipped: 0 };
    for (const module of modules) {
      count.failed += module.errors().length;
      for (const suite of module.children.allSuites()) count.failed += suite.errors().length;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        count[state === 'pending' ? 'skipped' : state] += 1;
      }
    }
    const skipped = count.skipped === 0 ? '' : `, ${count.skipped} skipped`;
    // At the exit, because the teardown and other reporters still print.
    process.once('exit', (code) => {
      // Count a run that failed before its first test.
      if (code !== 0 && count.failed === 0) count.failed = 1;
      process.stdout.write(`${count.passed} passed, ${count.failed} failed${skipped}\n`);
    });
  }
}
