/** A thread that runs one world after the other, with its own clocks, timers and randomness. */
import { parentPort, workerData } from 'node:worker_threads';
import type { PlayedWorld } from './crew.ts';
import { openWorldSetup, runWorld } from './world.ts';

if (parentPort === null) throw new Error('this is to run in a thread');
const port = parentPort;
const setup = await openWorldSetup(String(workerData));
port.on('message', (number: number) => {
  void runWorld(setup, number).then((report) =>
    port.postMessage({ number, report } satisfies PlayedWorld),
  );
});
port.postMessage('ready');
