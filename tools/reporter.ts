import type { Reporter, SerializedError, TestModule } from 'vitest/node';

/**
 * Ends the output with `N passed, N failed`, alone on the last line. What fails without being a
 * test (a file that does not load, a hook of a suite, an unhandled rejection) counts as failed.
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
    // At the exit, because the teardown and the other reporters still have something to say.
    process.once('exit', (code) => {
      // A run that failed before any test could is still a failure.
      if (code !== 0 && count.failed === 0) count.failed = 1;
      process.stdout.write(`${count.passed} passed, ${count.failed} failed${skipped}\n`);
    });
  }
}
