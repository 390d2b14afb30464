/** Standard output of a server: in a process of its own, which can be ended when it never ends by itself. */
import { spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { makeDirectory } from '../support/directory.ts';

const log = JSON.stringify(resolve(import.meta.dirname, '../../src/base/log.ts'));
const before = `import { makeLogger } from ${log};
  const log = makeLogger({ level: 'info', format: 'json' });\n`;

function start(program: string, stdout: number | 'pipe') {
  const args = ['--input-type=module', '--eval', before + program];
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', stdout, 'pipe'],
    timeout: 120_000,
    killSignal: 'SIGKILL',
  });
  const { stderr } = child;
  if (stderr === null) throw new Error('there is no pipe');
  const end = new Promise((ended) => child.once('close', (code) => ended(code)));
  return { child, end, stderr, errors: text(stderr) };
}

function messagesIn(written: string): string[] {
  return written
    .trimEnd()
    .split('\n')
    .map((line) => (JSON.parse(line) as { message: string }).message);
}

const many = Array.from({ length: 5000 }, (_, at) => `line ${at}`);
const sayMany = `for (let at = 0; at < ${many.length}; at += 1) log.info('line ' + at, { fill: 'x'.repeat(500) });`;

test('every line is there after the exit, in its order', async () => {
  const path = join(await makeDirectory(), 'log');
  const file = openSync(path, 'w');
  const { end } = start(
    `${sayMany} setTimeout(() => { log.info('last'); process.exit(3); }, 20);`,
    file,
  );
  expect(await end).toBe(3);
  closeSync(file);
  expect(messagesIn(readFileSync(path, 'utf8'))).toEqual([...many, 'last']);
});

test('a write that the thread pool has not begun is not overtaken at the exit', async () => {
  const path = join(await makeDirectory(), 'log');
  const file = openSync(path, 'w');
  // Four hashes of a password keep all threads of the pool busy.
  const program = `import { scrypt } from 'node:crypto';
    for (let at = 0; at < 4; at += 1) scrypt('a', 'b', 16, { N: 2 ** 14 }, () => undefined);
    log.info('first'); log.info('second'); process.exit(3);`;
  const { end } = start(program, file);
  expect(await end).toBe(3);
  closeSync(file);
  expect(messagesIn(readFileSync(path, 'utf8'))).toEqual(['first', 'second']);
});

test('a slow reader gets all of it, and blocks no other', async () => {
  const { child, end, stderr, errors } = start(`${sayMany} console.error('said');`, 'pipe');
  child.stdout?.pause();
  await new Promise((said) => stderr.once('data', said));
  if (child.stdout === null) throw new Error('there is no pipe');
  expect(messagesIn(await text(child.stdout))).toEqual(many);
  expect([await end, await errors]).toEqual([0, 'said\n']);
});

test.runIf(process.platform === 'linux')(
  'a full disk neither ends the process nor keeps it from ending',
  async () => {
    const full = openSync('/dev/full', 'w');
    const program = `log.info('first');
      setTimeout(() => { log.info('second'); console.error('goes on'); }, 50);
      setTimeout(() => { log.info('third'); process.exit(3); }, 100);`;
    const { end, errors } = start(program, full);
    closeSync(full);
    expect([await end, await errors]).toEqual([3, 'goes on\n']);
  },
);

test('a reader that has left is not waited for', async () => {
  const program = `log.info('first');
    setTimeout(() => { log.info('second'); }, 50);
    setTimeout(() => { log.info('third'); process.exit(3); }, 100);`;
  const { child, end, errors } = start(program, 'pipe');
  child.stdout?.destroy();
  expect([await end, await errors]).toEqual([3, '']);
});
