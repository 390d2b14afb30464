import { join } from 'node:path';
import type { Arm, Measures } from '../frame.ts';
import { buildGo, canBuildGo } from '../native.ts';
import { canMakePlugin, makePlugin } from '../plugins.ts';
import { runNode, runProgram } from '../program.ts';
import { makeQueueFile, removeQueueFile } from '../queue-file.ts';
import { settings } from '../settings.ts';
import { workDirectory } from '../work.ts';

const SLOTS = 8;

export default [makeGo(), makeNaive()];

/** Straightforward implementation in Go. */
function makeGo(): Arm {
  let command = '';
  let entrypoint = '';
  return {
    name: 'Go durable, 8 slots',
    async available() {
      const go = await canBuildGo();
      return go === true ? await canMakePlugin('static') : go;
    },
    async prepare() {
      command = await buildGo();
      ({ entrypoint } = await makePlugin('static'));
    },
    async run() {
      return await withQueue('go', async (file) => {
        const args = [file, String(SLOTS), String(settings.burstSeconds), entrypoint];
        return await runProgram(command, args);
      });
    },
  };
}

/** Straightforward implementation in Node. */
function makeNaive(): Arm {
  let entrypoint = '';
  return {
    name: 'naive Node, 8 slots',
    async available() {
      return await canMakePlugin('static');
    },
    async prepare() {
      ({ entrypoint } = await makePlugin('static'));
    },
    async run() {
      const seconds = settings.burstSeconds;
      return await withQueue(
        'naive',
        async (file) => await runNode('naive', { file, slots: SLOTS, seconds, entrypoint }),
      );
    },
  };
}

async function withQueue(
  name: string,
  run: (file: string) => Promise<Measures>,
): Promise<Measures> {
  const file = join(await workDirectory(), `${name}.db`);
  await makeQueueFile(file, settings.queuedJobs);
  try {
    return await run(file);
  } finally {
    await removeQueueFile(file);
  }
}
