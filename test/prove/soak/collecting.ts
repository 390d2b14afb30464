/**
 * Loaded into a server before its own program (`--import`): on a signal, the server collects all
 * garbage, and writes down what is left.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { isMainThread } from 'node:worker_threads';
import { COLLECT, LEFT_FILE, type HeapReport } from './left.ts';

const BYTES_PER_MIB = 1024 ** 2;

if (isMainThread) listen();

function listen(): void {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as (options: object) => void;
  const file = join(process.cwd(), LEFT_FILE);
  let times = 0;
  process.on(COLLECT, () => {
    // The second collection frees objects whose holder was freed by the first.
    for (let round = 0; round < 2; round += 1)
      collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
    const { heapUsed, external } = process.memoryUsage();
    const left: HeapReport = {
      times: (times += 1),
      heapMib: (heapUsed + external) / BYTES_PER_MIB,
    };
    writeFileSync(`${file}.draft`, JSON.stringify(left));
    renameSync(`${file}.draft`, file);
  });
}
