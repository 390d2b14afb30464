/** Completions, requested as the shell scripts request them, and once in a real bash. */
import { execFileSync } from 'node:child_process';
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { completionScript } from '../../src/cli/completion.ts';
import { makeDirectory } from '../support/directory.ts';
import { job, run } from '../support/fake-cli.ts';

/** Time enough. */
const io = { pause: () => new Promise<void>(() => undefined) };

async function offered(words: readonly string[], answer = {}): Promise<string[]> {
  const { out, err, code, hostCalls } = await run(['__complete', '--', ...words], { answer, io });
  expect([err, code]).toEqual(['', 0]);
  expect(hostCalls.at(-1)).toEqual(['exit', 0]);
  return out.split('\n').flatMap((line) => (line === '' ? [] : [line.split('\t')[0] ?? '']));
}

describe('words', () => {
  test.each<[string[], string[], string[]]>([
    [['jo'], ['job', 'jobs'], ['queue']],
    [[''], ['job', 'system', 'logs', 'completion', 'status', 'doctor'], ['plugins', '__complete']],
    [
      ['job', ''],
      ['list', 'show', 'tree', 'cancel'],
      ['start', 'inspect'],
    ],
    [
      ['webhook', ''],
      ['create', 'edit', 'delete'],
      ['add', 'remove'],
    ],
    [['breaker', ''], ['list', 'show', 'reset'], []],
    [
      ['system', ''],
      ['start', 'doctor'],
      ['breaker', 'reset'],
    ],
    [['config', 'show', '--'], ['--active', '--effective'], []],
    [['config', ''], ['show'], ['view']],
    [['system', 'st'], ['start', 'status'], ['check']],
    [['job', 'list', '--st'], ['--status'], ['--plugin']],
    [['job', 'list', '--'], ['--plugin', '--watch', '--json', '--config'], []],
    [['job', 'list', '--status', 'f'], ['failed'], ['queued']],
    [['completion', ''], ['bash', 'zsh', 'fish'], []],
    [['--config', ''], [':files'], ['job']],
    [['--config', 'x', 'que'], ['queue'], [':files']],
    [['system', 'backup', '--to', 'x'], [':files'], []],
    [['no', 'such', 'thing', ''], [], ['job']],
  ])('%j', async (words, there, missing) => {
    const found = await offered(words);
    expect(found).toEqual(expect.arrayContaining(there));
    for (const word of missing) expect(found).not.toContain(word);
  });
});

describe('the current objects', () => {
  test('plugins', async () => {
    const plugins = [{ name: 'mail', description: 'Reads mail\u001b[31m' }, { name: 'echo' }];
    expect(await offered(['plugin', 'run', ''], { plugins })).toEqual(['mail', 'echo']);
    expect(await offered(['job', 'list', '-p', 'm'], { plugins })).toEqual(['mail']);
    expect(await offered(['logs', 'e'], { plugins })).toEqual(['echo']);
    const { out } = await run(['__complete', 'plugin', 'run', ''], { answer: { plugins }, io });
    expect(out).toContain('mail\tReads mail\\u001b[31m\n');
  });

  test('jobs, with the configuration that was named before', async () => {
    const { out, calls, hostCalls } = await run(
      ['__complete', '--config', '/etc/d', 'job', 'show', '01'],
      { answer: { jobs: [job] }, io },
    );
    expect(out).toBe(`${job.job_id}\tmail poll succeeded\n`);
    expect(calls).toEqual([['job.list', { limit: 20 }]]);
    expect(hostCalls[0]).toEqual(['findSocket', '/etc/d']);
  });

  test('nothing, without a message, when no service runs', async () => {
    expect(
      (await run(['__complete', 'job', 'show', ''], { answer: new Error('boom'), io })).out,
    ).toBe('');
    const never = new Promise<never>(() => undefined);
    const { out, code } = await run(['__complete', 'job', 'show', ''], {
      host: { findSocket: () => never },
    });
    expect([out, code]).toEqual(['', 0]);
  });
});

describe('scripts', () => {
  test.each(['bash', 'zsh', 'fish'])('%s has one', async (shell) => {
    const { out, code } = await run(['completion', shell]);
    expect(code).toBe(0);
    expect(out).toContain('__complete --');
  });

  test('another shell gets the list of known shells', async () => {
    const { code, err } = await run(['completion', 'tcsh']);
    expect([code, err]).toEqual([2, expect.stringContaining('bash, zsh or fish')]);
  });

  test('a real bash offers what the program says, colons and files included', async () => {
    const directory = await makeDirectory();
    const program = join(directory, 'ductile');
    // The stub prints values that begin like the last word and contain the number of words.
    writeFileSync(
      program,
      '#!/bin/sh\nshift 2\nfor last; do :; done\nprintf "%s-$#\\tdescription\\n" "$last"\n' +
        'if [ "$1" = --config ]; then echo :files; fi\n',
    );
    chmodSync(program, 0o755);
    const ask = (line: string): string[] => {
      const script = `${completionScript('bash')}
        PATH=${directory}:$PATH
        COMP_LINE='${line}' COMP_POINT=${line.length}
        read -r -a COMP_WORDS <<<"$COMP_LINE"
        COMP_CWORD=$(( \${#COMP_WORDS[@]} - 1 ))
        compopt() { echo "compopt $*"; }
        _ductile
        printf '%s\\n' "\${COMPREPLY[@]}"`;
      const env = { PATH: process.env['PATH'] };
      return execFileSync('bash', ['--norc', '-c', script], { encoding: 'utf8', env })
        .trimEnd()
        .split('\n');
    };
    expect(ask('ductile job li')).toEqual(['li-2']);
    expect(ask('ductile job ')).toEqual(['-2']);
    expect(ask('ductile schedule pause mail:po')).toEqual(['po-3']);
    expect(ask('ductile --config da')).toEqual(['compopt -o default', 'da-2']);
  });
});
