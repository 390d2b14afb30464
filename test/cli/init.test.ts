/** `init`, the first command of a new user: real files, the real operation, no process. */
import { existsSync } from 'node:fs';
import { access, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { cliHost } from '../../src/app/cli-host.ts';
import { makeDirectory } from '../support/directory.ts';
import { run, type CliResult } from '../support/fake-cli.ts';

interface Person {
  /** The typed input, if there is a terminal. */
  readonly typed?: string;
}

async function init(
  cwd: string,
  args: readonly string[],
  { typed }: Person = {},
): Promise<CliResult> {
  return run(args, {
    host: { openLocal: (given, need) => cliHost.openLocal(given, need) },
    io: {
      cwd,
      isTTY: typed !== undefined,
      isInTTY: typed !== undefined,
      stdin: (async function* () {
        yield await Promise.resolve(typed ?? '');
      })(),
    },
  });
}

describe('ductile init', () => {
  test('prompts for nothing without a terminal, and prints how to continue', async () => {
    const cwd = await makeDirectory();
    const { code, out, err } = await init(cwd, ['init', '--dir', 'new']);
    const directory = join(cwd, 'new');
    expect([code, err]).toEqual([0, '']);
    expect(out).not.toContain('?');
    const next = out.split('Next:\n')[1]?.trimEnd().split('\n');
    expect(next?.map((line) => line.trim().split(' ').slice(0, 3).join(' '))).toEqual([
      'ductile system start',
      'ductile plugin run',
      'ductile job list',
    ]);
    const token = /^token +(\w{32})$/m.exec(out)?.[1];
    expect(await readFile(join(directory, '.env'), 'utf8')).toBe(`DUCTILE_ADMIN_TOKEN=${token}\n`);
    expect((await stat(join(directory, '.env'))).mode & 0o777).toBe(0o600);
    expect(await readFile(join(directory, 'config.yaml'), 'utf8')).not.toContain(token);
    const page = await readFile(join(directory, 'AGENTS.md'), 'utf8');
    expect(page.length).toBeLessThan(2500);
    const check = ['config', 'check', '--fail-on-warnings', '--config', directory];
    expect(await init(cwd, check)).toMatchObject({ code: 0, out: 'Nothing is wrong.\n' });
  });

  test('every command that AGENTS.md names is one', async () => {
    const cwd = await makeDirectory();
    await init(cwd, ['init', '--dir', '.']);
    const page = await readFile(join(cwd, 'AGENTS.md'), 'utf8');
    const commands = [...page.matchAll(/`ductile ([a-z]+(?: [a-z]+)?)/g)].map(
      ([, words = '']) => words,
    );
    expect(commands.length).toBeGreaterThan(10);
    for (const words of new Set(commands)) {
      expect([words, (await init(cwd, [...words.split(' '), '--help'])).code]).toEqual([words, 0]);
    }
  });

  test('prompts for two values, and Enter accepts the proposed ones', async () => {
    const cwd = await makeDirectory();
    const own = await init(cwd, ['init'], { typed: 'mine\nno\n' });
    expect(own).toMatchObject({ code: 0, out: expect.not.stringContaining('token ') });
    expect(own.out.match(/\?/g)).toHaveLength(2);
    await access(join(cwd, 'mine', 'config.yaml'));
    await expect(access(join(cwd, 'mine', '.env'))).rejects.toThrow('ENOENT');
    const enter = await init(cwd, ['init', '--dir', 'other'], { typed: '\n' });
    expect(enter.out).toMatch(/^api +http:\/\/127\.0\.0\.1:8080$/m);
    const result = await init(cwd, ['init', '--dir', 'third', '--api', '127.0.0.1:9', '--yes'], {
      typed: '',
    });
    expect(result.out).toMatch(/^api +http:\/\/127\.0\.0\.1:9$/m);
  });

  test('replaces a configuration only with --force, and keeps the token that is in use', async () => {
    const cwd = await makeDirectory();
    await init(cwd, ['init', '--dir', '.']);
    const env = await readFile(join(cwd, '.env'), 'utf8');
    expect(await init(cwd, ['init', '--dir', '.'])).toMatchObject({
      code: 1,
      err: expect.stringContaining('CONFIG_EXISTS'),
    });
    expect(await init(cwd, ['init', '--dir', '.', '--force'])).toMatchObject({
      code: 0,
      out: expect.not.stringContaining('token '),
    });
    expect(await readFile(join(cwd, '.env'), 'utf8')).toBe(env);
    for (const more of [['--dry-run'], ['--api', 'nonsense']]) {
      await init(cwd, ['init', '--dir', 'never', ...more]);
      await expect(access(join(cwd, 'never'))).rejects.toThrow('ENOENT');
    }
  });
});

test('skills export writes a page for each noun, and the plugins in their own words', async () => {
  const cwd = await makeDirectory();
  await init(cwd, ['init', '--dir', 'etc']);
  const line = ['skills', 'export', '--dir', 'out', '--config', join(cwd, 'etc')];
  const planned = await init(cwd, [...line, '--dry-run']);
  expect(planned.out).toContain('reference/job.md');
  expect(existsSync(join(cwd, 'out'))).toBe(false);
  const result = await init(cwd, [...line, '--json']);
  const { directory, files } = JSON.parse(result.out) as { directory: string; files: string[] };
  expect(directory).toBe(join(cwd, 'out', 'ductile'));
  const first = await readFile(join(directory, 'SKILL.md'), 'utf8');
  expect(first).toMatch(/^---\nname: ductile\ndescription: [^\n]{50,1000}\n---\n/);
  const linked = [...first.matchAll(/\]\(([^)]+)\)/g)].map(([, path = '']) => path);
  expect(linked.toSorted()).toEqual(files.filter((file) => file !== 'SKILL.md').toSorted());
  expect(await readFile(join(directory, 'reference/job.md'), 'utf8')).toContain(
    'ductile job show [options] <id>',
  );
  expect(await readFile(join(directory, 'plugins.md'), 'utf8')).toContain('## echo');
});
