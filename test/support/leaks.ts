/** Setup of every test file: fails if the file leaves a process behind. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll } from 'vitest';
import { runCleanups } from './at-end.ts';
import { endWithRun } from './orphan.ts';
import { findDescendants, kill } from './processes.ts';

const graceMs = 3_000;
const everyMs = 20;

endWithRun();

// Registered before every hook of the file, so it runs after all of them.
afterAll(async () => {
  await runCleanups();
  const deadline = performance.now() + graceMs;
  let left = await findDescendants(process.pid);
  while (left.length > 0 && performance.now() < deadline) {
    await sleep(everyMs);
    left = await findDescendants(process.pid);
  }
  if (left.length === 0) return;
  left.forEach(kill);
  const names = left.map(({ pid, command }) => `  ${pid} ${command}`).join('\n');
  throw new Error(`this file left processes running (they were killed now):\n${names}`);
});
