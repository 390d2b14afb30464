/** A new plugin: created, run like the runtime would, and checked. */
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { cliHost } from '../../src/app/cli-host.ts';
import type { JsonObject } from '../../src/base/json.ts';
import { pluginLanguages } from '../../src/operation/extras.ts';
import { makeDirectory } from '../support/directory.ts';
import { run, type CliResult } from '../support/fake-cli.ts';
import { pluginsRoot } from '../support/plugin-process.ts';
import { writePlugin } from '../support/plugin-tree.ts';
let home = '';
beforeAll(async () => {
  home = await makeDirectory();
  await writeFile(join(home, 'config.yaml'), 'plugin_roots: [./plugins]\n');
  await mkdir(join(home, 'plugins'));
});

function type(...args: string[]): Promise<CliResult> {
  return run([...args, '--config', home], {
    host: { openLocal: (given, need) => cliHost.openLocal(given, need) },
    io: { cwd: home },
  });
}

interface Finding extends JsonObject {
  check: string;
  command: string | null;
  verdict: string;
  seen: string;
}

async function examine(...args: string[]): Promise<{ code: number; findings: Finding[] }> {
  const { code, out, err } = await type('plugin', 'test', ...args, '--json');
  if (out === '') throw new Error(err);
  const { findings } = JSON.parse(out) as { findings: Finding[] };
  return { code, findings };
}

/** The results other than a plain pass. */
function marks(findings: readonly Finding[]): string[] {
  return findings
    .filter(({ verdict }) => verdict !== 'passed')
    .map(({ verdict, command, check }) => [verdict, command, check].filter(Boolean).join(' '));
}

describe('plugin create', () => {
  test.concurrent.each(pluginLanguages)('%s: what it makes passes every check', async (lang) => {
    const name = `greet-${lang}`;
    const { code, out } = await type('plugin', 'create', name, '--lang', lang);
    const directory = join(home, 'plugins', name);
    expect([code, out]).toEqual([0, expect.stringContaining(`plugin test ${directory} --all`)]);
    expect(out).not.toContain('plugin_roots');
    const result = await examine(directory, '--all');
    expect([result.code, marks(result.findings)]).toEqual([0, []]);
    const seen = (command: string, check: string): string | undefined =>
      result.findings.find((one) => one.command === command && one.check === check)?.seen;
    expect(seen('handle', 'response')).toMatch(/: Hello, Ann$/);
    expect(seen('poll', 'response')).toMatch(/: README\.md changed$/);
    expect(seen('handle', 'empty payload')).toContain('payload.name');
    const page = await readFile(join(directory, 'README.md'), 'utf8');
    expect(page).not.toMatch(/your-|undefined/);
  });

  test('replaces nothing', async () => {
    await type('plugin', 'create', 'twice', '--lang', 'sh');
    const program = join(home, 'plugins/twice/run.sh');
    await writeFile(program, 'mine');
    const { code, err } = await type('plugin', 'create', 'twice', '--lang', 'sh');
    expect([code, err]).toEqual([1, expect.stringContaining('PLUGIN_EXISTS')]);
    expect(await readFile(program, 'utf8')).toBe('mine');
  });

  test('says what would be written, and how the runtime finds it elsewhere', async () => {
    const command = ['plugin', 'create', 'far', '--lang', 'python', '--dir', 'elsewhere/far'];
    const plan = await type(...command, '--dry-run');
    expect(plan.out).toContain(`${join(home, 'elsewhere/far/run.py')} will be written.`);
    const { out } = await type(...command);
    expect(out).toContain(`Add "${join(home, 'elsewhere')}" to plugin_roots`);
  });

  test.each(['Greet', 'null', '../up', 'a--b', ''])('refuses the name %j', async (name) => {
    expect(await type('plugin', 'create', name, '--lang', 'sh')).toMatchObject({ code: 2 });
  });
});

describe('plugin test', () => {
  test('explains the faults of a plugin, their consequences, and the fixes', async () => {
    const directory = await writePlugin(join(home, 'bad'), {
      name: 'bad',
      commands: `commands:
  look: { type: read, output_schema: { n: integer }, values: { emit: [{ event: bad.seen }] } }
  push: {}`,
      extra: 'prewarm: true\nconfig_keys: { required: [url] }',
      program: `#!/bin/sh
printf ' '
cat >/dev/null
echo '{"status":"ok","result":"x","events":[{"type":"bad.other","payload":{"n":"one"}}]}'
`,
    });
    const { code, findings } = await examine(directory, '--settings', '{"url": "x"}');
    expect(code).toBe(1);
    expect(marks(findings)).toEqual([
      'hint push idempotency',
      'hint health',
      'failed look events',
      'failed look output',
      'skipped push response',
      'failed unknown command',
      'warning exit code 78',
      'failed prewarm',
    ]);
    for (const { verdict, means, mend } of findings) {
      if (verdict === 'failed')
        expect([means, mend]).toEqual([expect.any(String), expect.any(String)]);
    }
    const { out } = await type('plugin', 'test', directory);
    expect(out).toMatch(/skipped +look response: was not run: it needs config\.url/);
  });

  test('fails a command that says ok and exits with an error', async () => {
    const directory = await writePlugin(join(home, 'unsure'), {
      name: 'unsure',
      commands: 'commands: { look: { type: read } }',
      program: '#!/bin/sh\ncat >/dev/null\necho \'{"status":"ok","result":"x"}\'\nexit 3\n',
    });
    const { code, findings } = await examine(directory);
    expect(code).toBe(1);
    expect(marks(findings)).toContain('failed look response');
  });

  test('knows what else was printed, and runs a write command that is named', async () => {
    const directory = await writePlugin(join(home, 'chatty'), {
      name: 'chatty',
      commands: 'commands: { push: {} }',
      program: '#!/bin/sh\necho "Loading..."\necho \'{"status":"ok","result":"x"}\'\n',
    });
    const { code, findings } = await examine(directory, '--command', 'push');
    expect(code).toBe(1);
    const answer = findings.find(({ check }) => check === 'response');
    expect(answer).toMatchObject({
      verdict: 'failed',
      seen: 'stdout has "Loading..." before the response',
      mend: expect.stringContaining('stderr') as string,
    });
  });

  test('runs nothing that the runtime would not', async () => {
    const directory = await writePlugin(join(home, 'open'), { program: '#!/bin/sh\ntouch ran\n' });
    await chmod(join(directory, 'run.sh'), 0o777);
    const { code, findings } = await examine(directory);
    expect([code, marks(findings)]).toEqual([1, ['failed trust', 'hint handle idempotency']]);
    await expect(readFile(join(directory, 'ran'))).rejects.toThrow('ENOENT');
  });

  test('a plugin that comes along keeps to it', async () => {
    const { code, findings } = await examine(join(pluginsRoot, 'echo'));
    expect([code, marks(findings)]).toEqual([0, []]);
  });

  test('a broken manifest is shown with its place', async () => {
    const directory = await writePlugin(join(home, 'broken'), { manifest: 'name: [x\n' });
    const { code, findings } = await examine(directory);
    expect([code, findings[0]?.seen]).toEqual([1, expect.stringContaining('manifest.yaml:')]);
  });

  test.each([
    [['nowhere'], 'no manifest.yaml'],
    [['plugins/twice', '--payload', '{}'], 'none is set'],
    [['plugins/twice', '--command', 'pol'], 'Did you mean poll?'],
  ])('refuses %j', async (args, message) => {
    const { code, err } = await type('plugin', 'test', ...args);
    expect([code, err]).toEqual([expect.any(Number), expect.stringContaining(message)]);
    expect(code).toBeGreaterThan(0);
  });
});
