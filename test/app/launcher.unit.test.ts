import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { cp, mkdir, readFile, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { makeDirectory } from '../support/directory.ts';

const repository = resolve(import.meta.dirname, '../..');
const { runtimePackage } = createRequire(import.meta.url)('../../bin/floor.cjs') as {
  runtimePackage: () => string;
};

/** A stub of npm: records the call, waits if requested, and creates the files of `npm ci`. */
const npm = `#!/bin/sh
echo "npm $*" >>calls
while [ -e hold ]; do sleep 0.02; done
if [ -e broken ]; then echo 'the lock file is out of order'; exit 1; fi
mkdir -p node_modules/.bin
ln -sf '${process.execPath}' node_modules/.bin/node
touch node_modules/.package-lock.json
`;

const build = `
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
process.chdir(import.meta.dirname + '/..');
appendFileSync('calls', 'build\\n');
mkdirSync('dist', { recursive: true });
writeFileSync('dist/.stamp', '');
writeFileSync('dist/main.cjs', \`
  if (process.argv[2] === 'wait') {
    process.on('SIGTERM', () => process.exit(7));
    setInterval(() => {}, 1000);
  }
  console.log(process.argv.slice(2).join('|'));
  process.exitCode = 3;
\`);
`;

let root: string;
let env: Record<string, string>;

beforeEach(async () => {
  root = await makeDirectory();
  for (const path of ['ductile', 'bin', 'tools/lib.sh', 'package.json']) {
    await cp(join(repository, path), join(root, path), { recursive: true });
  }
  await mkdir(join(root, 'src'));
  await mkdir(join(root, 'path'));
  await writeFile(join(root, 'package-lock.json'), '{}');
  await writeFile(join(root, 'path/npm'), npm, { mode: 0o755 });
  await writeFile(join(root, 'tools/build.ts'), build);
  env = { PATH: `${join(root, 'path')}:/usr/bin:/bin` };
});

interface Run {
  readonly child: ChildProcess;
  readonly output: () => string;
  readonly waitForText: (text: string) => Promise<void>;
  readonly ended: Promise<number | null>;
}

function start(program: string, ...args: string[]): Run {
  const child = spawn(program, args, { env, cwd: '/' });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (text += chunk));
  return {
    child,
    output: () => text,
    waitForText: (expected) => expect.poll(() => text, { timeout: 120_000 }).toContain(expected),
    ended: new Promise((done) => child.once('close', (code) => done(code))),
  };
}

async function launch(...args: string[]): Promise<{ output: string; code: number | null }> {
  const run = start(join(root, 'ductile'), ...args);
  const code = await run.ended;
  return { output: run.output(), code };
}

async function readCalls(): Promise<string[]> {
  return (await readFile(join(root, 'calls'), 'utf8')).trim().split('\n');
}

describe('the launcher', () => {
  test('installs and builds once, passing on arguments and the exit code', async () => {
    const first = await launch('a', 'b c');
    expect(first.output).toBe(
      'ductile: installing dependencies (once)…\nductile: building…\na|b c\n',
    );
    expect(first.code).toBe(3);
    expect(await launch('again')).toEqual({ output: 'again\n', code: 3 });
    expect(await readCalls()).toEqual(['npm ci --include=dev --include=optional', 'build']);
  });

  test('builds again when a source is newer than the build', async () => {
    await launch();
    await utimes(join(root, 'dist/.stamp'), 1, 1);
    expect((await launch('x')).output).toBe('ductile: building…\nx\n');
  });

  test('installs again when the lock file is newer than what is installed', async () => {
    await launch();
    await utimes(join(root, 'node_modules/.package-lock.json'), 1, 1);
    expect((await launch('x')).output).toContain('installing dependencies');
  });

  test('is found through symbolic links, from anywhere', async () => {
    await symlink('../ductile', join(root, 'path/one'));
    await symlink('one', join(root, 'path/two'));
    const run = start('two', 'x');
    expect(await run.ended).toBe(3);
    expect(run.output()).toContain('\nx\n');
  });

  test('becomes the program, so that signals reach it', async () => {
    await launch();
    const run = start(join(root, 'ductile'), 'wait');
    await run.waitForText('wait');
    run.child.kill('SIGTERM');
    expect(await run.ended).toBe(7);
  });

  test('waits while another one installs', async () => {
    await writeFile(join(root, 'hold'), '');
    const one = start(join(root, 'ductile'), 'one');
    await one.waitForText('installing');
    const two = start(join(root, 'ductile'), 'two');
    await two.waitForText(`waiting for process ${one.child.pid}`);
    await rm(join(root, 'hold'));
    expect([await one.ended, await two.ended]).toEqual([3, 3]);
    expect(await readCalls()).toHaveLength(2);
  });

  test('takes over the lock of one that is dead', async () => {
    const dead = spawnSync('true').pid;
    await mkdir(join(root, 'build'));
    await symlink(`pid-${dead}`, join(root, 'build/lock'));
    expect((await launch('x')).code).toBe(3);
  });

  test('shows the output of npm if it fails, and can be run again', async () => {
    await writeFile(join(root, 'broken'), '');
    const failed = await launch();
    expect(failed.output).toContain('the lock file is out of order');
    expect(failed.code).toBe(1);
    await rm(join(root, 'broken'));
    expect((await launch()).code).toBe(3);
  });
});

describe('on a Node that is too old', () => {
  beforeEach(async () => {
    await launch();
    const pretend = `Object.defineProperty(process, 'versions', { value: { node: '24.9.0' } });`;
    await writeFile(join(root, 'old.cjs'), pretend);
  });

  const runOld = (...args: string[]): Run =>
    start(
      process.execPath,
      '--require',
      join(root, 'old.cjs'),
      join(root, 'bin/ductile.cjs'),
      ...args,
    );

  test('the published command says in one line what to do', async () => {
    const run = runOld('x');
    expect(await run.ended).toBe(1);
    expect(run.output()).toMatch(
      /^ductile: Node\.js 24\.15 or newer is needed; .* is 24\.9\.0\. .*\n$/,
    );
  });

  test('it hands over to a newer one beside it, signals included', async () => {
    const runtime = join(root, 'node_modules', runtimePackage());
    await mkdir(join(runtime, 'bin'), { recursive: true });
    await writeFile(join(runtime, 'package.json'), '{}');
    await symlink(process.execPath, join(runtime, 'bin/node'));
    const run = runOld('wait');
    await run.waitForText('wait');
    run.child.kill('SIGTERM');
    expect(await run.ended).toBe(7);
  });
});
