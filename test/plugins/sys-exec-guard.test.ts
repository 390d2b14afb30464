/** Commands in which a payload's value could become code, an option or the program itself. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { runError, runOk } from '../support/plugin-process.ts';

const refused: readonly (readonly string[])[] = [
  ['sh', '-ce', 'echo {name}'],
  ['sh', '-ec', 'echo {name}'],
  ['sh', '-c', '-e', 'echo {name}'],
  ['sh', '-e', '-c', '--', 'echo {name}'],
  ['sh', '-co', 'errexit', 'echo {name}'],
  ['bash', '-c', '-O', 'extglob', 'echo {name}'],
  ['bash', '--norc', '-ic', 'echo {name}'],
  ['bash', '--rcfile', '{name}', '-i'],
  ['/bin/dash', '-cx', 'echo {name}'],
  ['zsh', '-fc', 'echo {name}'],
  ['ksh93', '-c', 'echo {name}'],
  ['fish', '--command=echo {name}'],
  ['sh', '{name}'],
  ['sh', '-x', '{name}'],
  ['busybox', 'sh', '-c', 'echo {name}'],
  ['busybox', '{name}'],
  ['env', 'sh', '-ce', 'echo {name}'],
  ['env', '-i', 'A=1', '/bin/sh', '-c', 'echo {name}'],
  ['env', '-u', 'A', '-C', '/', 'sh', '-c', 'echo {name}'],
  ['env', '-S', 'sh -c "echo {name}"'],
  ['env', '--split-string=sh -c', 'echo {name}'],
  ['env', 'LD_PRELOAD={name}', 'ls'],
  ['env', '{name}'],
  ['nice', '-n', '5', 'sh', '-c', 'echo {name}'],
  ['nice', '{name}'],
  ['nohup', 'setsid', 'timeout', '-k', '1', '5', 'bash', '-lc', 'echo {name}'],
  ['timeout', '5', '{name}'],
  ['sudo', '-u', 'nobody', 'sh', '-c', 'echo {name}'],
  ['sudo', '-u', '{name}', 'id'],
  ['xargs', '-n', '1', 'sh', '-c', 'echo {name}'],
  ['docker', 'exec', 'box', 'sh', '-ec', 'echo {name}'],
  ['find', '.', '-exec', 'bash', '-c', 'echo {name}', ';'],
  ['python3', '-c', 'print({name})'],
  ['python3.11', '-uBc', 'print({name})'],
  ['python', '-cprint({name})'],
  ['python3', '-W', 'ignore', '{name}'],
  ['python3', '-m', '{name}'],
  ['pypy3', '-c', '{name}'],
  ['node', '-e', '{name}'],
  ['node', '-pe', '{name}'],
  ['nodejs', '--eval={name}'],
  ['node', '--no-warnings', '--print', '{name}'],
  ['node', '--require', '{name}', 'x.js'],
  ['node', '{name}'],
  ['deno', 'eval', '{name}'],
  ['deno', 'run', '--allow-net', '{name}'],
  ['bun', '-e', '{name}'],
  ['perl', '-e', '{name}'],
  ['perl', '-lane', '{name}'],
  ['perl', '-e', '1', '-e', '{name}'],
  ['perl', '-eprint {name}'],
  ['ruby', '-ne', '{name}'],
  ['php', '-r', '{name}'],
  ['php8.2', '-d', 'a=b', '-r', '{name}'],
  ['lua5.4', '-e', '{name}'],
  ['osascript', '-e', '{name}'],
  ['awk', 'BEGIN { system("{name}") }'],
  ['gawk', '-v', 'a=b', '{name}'],
  ['sed', '-n', 's/x/{name}/e'],
  ['sed', '-e', 's/a/b/', 'file', '-e', '{name}'],
  ['su', 'nobody', '-c', 'echo {name}'],
  ['flock', '/tmp/lock', '-c', 'echo {name}'],
  ['ssh', 'host', 'echo', '{name}'],
  ['ssh', '-o', 'ProxyCommand={name}', 'host'],
  ['watch', 'echo {name}'],
  ['psql', 'db', '-c', 'select {name}'],
  ['vim', '-c', '{name}'],
  ['pwsh', '-Command', '{name}'],
  ['find', '.', '-name', '*.txt', '-exec', '{name}', ';'],
  ['tar', 'xf', 'a.tar', '--checkpoint=1', '--checkpoint-action=exec={name}'],
  ['tar', 'xf', 'a.tar', '--to-command', '{name}'],
  ['rsync', '-ae', 'ssh {name}', 'a', 'b'],
  ['git', '-C', '/srv', '-c', 'alias.x=!{name}', 'x'],
  ['make', '--eval={name}'],
  ['ls', '-{name}'],
  ['ls', '--{name}=1'],
];

const allowed: readonly (readonly string[])[] = [
  ['sh', '-c', 'echo "$1"', 'sh', '{name}'],
  ['sh', '-ce', 'echo "${HOME}" "$1"', 'sh', '{name}'],
  ['bash', '-euo', 'pipefail', '-c', 'echo "$1"', 'bash', '{name}'],
  ['sh', 'script.sh', '{name}'],
  ['env', 'A=1', 'sh', '-c', 'echo "$1"', 'sh', '{name}'],
  ['env', '-S', 'printf %s', '{name}'],
  ['timeout', '-k', '1', '5', 'printf', '%s', '{name}'],
  ['sudo', '-n', '--', 'systemctl', 'restart', '{name}'],
  ['nice', '-n', '5', 'tar', 'xf', '{name}'],
  ['python3', 'script.py', '-c', '{name}'],
  ['python3', '-m', 'http.server', '{name}'],
  ['python3', '-c', 'import sys; print(sys.argv[1])', '{name}'],
  ['node', '--enable-source-maps', 'app.js', '--eval', '{name}'],
  ['perl', '-e', 'print $ARGV[0]', '{name}'],
  ['deno', 'run', '--allow-net', 'main.ts', '{name}'],
  ['awk', '-v', 'name={name}', 'BEGIN { print name }'],
  ['awk', 'END { print NR }', '{name}'],
  ['sed', '-n', '1p', '{name}'],
  ['sed', '-e', '1p', '--', '{name}'],
  ['ssh', '-p', '22', '{name}', 'uptime'],
  ['watch', '-x', 'ls', '{name}'],
  ['git', 'checkout', '{name}'],
  ['git', '-C', '/srv', 'log', '-c', '{name}'],
  ['find', '/srv', '-name', '{name}', '-exec', 'ls', '-l', '{}', ';'],
  ['tar', 'czf', '{name}', '/srv'],
  ['rsync', '-a', '--delete', '{name}', '/srv'],
  ['make', 'VERSION={name}'],
  ['grep', '-c', '{name}', 'file'],
  ['cp', 'python3', '{name}'],
  ['df', '--output=pcent', '{mount}'],
  ['curl', '-o{name}', 'https://example.org/'],
];

let faults: ReadonlyMap<string, string | null>;

/** A single process checks them all: starting Python takes far longer than the check. */
beforeAll(() => {
  const all = [...refused, ...allowed];
  const program = `
import json, sys
sys.dont_write_bytecode = True
from command_guard import Guarded, find_fault
print(json.dumps([find_fault(argv, Guarded(argv)) for argv in json.load(sys.stdin)]))`;
  const cwd = join(import.meta.dirname, '../../plugins/sys-exec');
  const { stdout, stderr } = spawnSync('python3', ['-c', program], {
    cwd,
    input: JSON.stringify(all),
    encoding: 'utf8',
  });
  expect(stderr).toBe('');
  const answers = JSON.parse(stdout) as (string | null)[];
  faults = new Map(all.map((argv, at) => [argv.join(' '), answers[at] ?? null]));
});

describe('a placeholder in a command', () => {
  test.each(refused.map((argv) => argv.join(' ')))('is refused in %s', (command) => {
    expect(faults.get(command)).toMatch(/placeholder|hands its/);
  });

  test.each(allowed.map((argv) => argv.join(' ')))('is accepted in %s', (command) => {
    expect(faults.get(command)).toBeNull();
  });
});

test.each([
  ['sh', '-ce', 'echo {name}'],
  ['env', '-S', 'sh -ce', 'echo {name}'],
])('%s … never runs what a payload says, with or without allow_shell', async (...argv) => {
  for (const allow of [false, true]) {
    const { code, error } = await runError('sys-exec', {
      command: 'run',
      config: { commands: { a: argv }, allow_shell: allow },
      payload: { command: 'a', args: { name: '$(id)' } },
    });
    expect(code).toBe(78);
    expect(error).toContain(allow ? 'cannot contain placeholders' : 'needs config.allow_shell');
  }
});

test('a script behind a wrapper gets values as arguments and keeps its own variables', async () => {
  const { events } = await runOk('sys-exec', {
    command: 'run',
    config: {
      allow_shell: true,
      commands: { a: ['env', 'X=y', 'sh', '-ce', 'echo "${X}" "$1"', 'sh', '{X}'] },
    },
    payload: { command: 'a', args: { X: '$(id); `id`' } },
  });
  expect(events[0]?.payload).toMatchObject({ stdout: 'y $(id); `id`\n' });
});
