import { findDescendants, kill } from './processes.ts';

let isWatching = false;

/** Ends this worker and its processes when the test run itself is killed. */
export function endWithRun(): void {
  if (isWatching) return;
  isWatching = true;
  process.once('disconnect', () => {
    void findDescendants(process.pid).then((left) => {
      left.forEach(kill);
      process.kill(process.pid, 'SIGKILL');
    });
  });
}
