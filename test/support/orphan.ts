import { findDescendants, kill } from './processes.ts';

let isWatching = false;

/** When the test run itself is killed, nobody waits for this worker any more. */
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
