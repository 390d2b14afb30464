import { noRules } from '../../src/ledger/rules.ts';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { openLedger } from '../../src/ledger/open.ts';
import { makeDirectory } from '../support/directory.ts';
import { eventually } from '../support/instance.ts';

const program = fileURLToPath(new URL('../support/crash/writer.ts', import.meta.url));

/** The offsets in SQLite's shared memory of what is checkpointed and what is about to be. */
const BACKFILLED_AT = 96;
const ATTEMPTED_AT = 128;

test('a process that is killed while its journal is put into the file loses nothing', async () => {
  const path = join(await makeDirectory(), 'ledger.db');
  const acknowledged: string[] = [];
  for (let round = 0; round < 4; round += 1) {
    const writer = start(path, 100_000);
    await untilUnderWay(path);
    writer.child.kill('SIGKILL');
    expect(await writer.ended).toEqual([null, 'SIGKILL']);
    acknowledged.push(...writer.lines());
    const ledger = await openLedger({ kind: 'sqlite', path }, noRules);
    const found = await Promise.all(acknowledged.map((id) => ledger.jobs.find(id)));
    expect(found.filter((job) => job === undefined)).toEqual([]);
    expect(await ledger.check()).toEqual([]);
    await ledger.close();
  }
  expect(acknowledged.length).toBeGreaterThan(100);
});

test('a process is not kept alive by the thread beside its ledger', async () => {
  const path = join(await makeDirectory(), 'ledger.db');
  const writer = start(path, 60);
  expect(await writer.ended).toEqual([0, null]);
  expect(writer.lines()).toHaveLength(60 * 20);
});

interface Writer {
  readonly child: ReturnType<typeof spawn>;
  readonly ended: Promise<unknown[]>;
  /** Whole lines that it said so far. */
  lines(): string[];
}

function start(path: string, times: number): Writer {
  const stdio = ['ignore', 'pipe', 'inherit'] as const;
  const child = spawn(process.execPath, [program, path, String(times)], { stdio: [...stdio] });
  let output = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (output += text));
  return { child, ended: once(child, 'close'), lines: () => output.split('\n').slice(0, -1) };
}

/** Looks without pause: it lasts some milliseconds. */
async function untilUnderWay(path: string): Promise<void> {
  const file = await eventually('there is a journal', () => tryOpen(`${path}-shm`));
  const numbers = new Uint32Array(1 + (ATTEMPTED_AT - BACKFILLED_AT) / 4);
  do {
    await turn();
    readSync(file, numbers, 0, numbers.byteLength, BACKFILLED_AT);
  } while ((numbers.at(0) ?? 0) >= (numbers.at(-1) ?? 0));
  closeSync(file);
}

function tryOpen(path: string): number | undefined {
  try {
    return openSync(path, 'r');
  } catch {
    return undefined;
  }
}
