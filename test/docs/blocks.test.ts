/** The documentation has configurations that Ductile accepts, and commands and flags that exist. */
import { globSync, readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parseDocument } from '../../src/config/document.ts';
import { readConfig } from '../../src/config/load.ts';
import { readPackage } from '../../src/config/packages.ts';
import { parseManifest } from '../../src/plugin/manifest.ts';
import { makeDirectory } from '../support/directory.ts';
import { run } from '../support/fake-cli.ts';
import { blocksIn } from '../support/program.ts';

const root = resolve(import.meta.dirname, '../..');
const pages = globSync('{README.md,docs/**/*.md,examples/*/README.md,sdk/**/README.md}', {
  cwd: root,
}).toSorted();
const blocks = pages.flatMap((page) =>
  blocksIn(readFileSync(join(root, page), 'utf8'), 'yaml').map(
    (yaml, index) => [`${page} ${index + 1}`, yaml] as const,
  ),
);

/** Parts of a file, and files of other programs. Schedules have a test of their own. */
const isPart =
  /^(?: |every:|cron:|if:|scrape_configs:|fact_outputs:|tokens:|environment_vars:|include:)/;

const isWhole = ([, yaml]: readonly [string, string]): boolean =>
  !isPart.test(yaml.replace(/^(?:#.*\n)+/, ''));

/** The problems that Ductile names in a block. */
async function findProblems(yaml: string): Promise<string[]> {
  const directory = await makeDirectory();
  if (yaml.includes('manifest_spec: ductile.package')) {
    await writeFile(join(directory, 'package.yaml'), yaml);
    return readPackage(directory).problems.map(({ message }) => message);
  }
  if (yaml.includes('manifest_spec: ductile.plugin')) {
    return parseManifest(parseDocument(yaml, 'manifest.yaml')).problems.map(
      ({ message }) => message,
    );
  }
  const names = [...yaml.matchAll(/\$\{(\w+)\}/g)].map(([, name = '']) => name);
  const env = Object.fromEntries(names.map((name) => [name, `value-of-${name}-for-the-test`]));
  await mkdir(join(directory, 'plugins'));
  const roots = yaml.includes('plugin_roots:') ? '' : 'plugin_roots: [plugins]\n';
  await writeFile(join(directory, 'config.yaml'), yaml + roots);
  const { problems } = readConfig({ given: directory, env });
  return problems.map(({ key, message }) => `${key} ${message}`);
}

/** Commands of shell blocks with their flags, one for each line; a `\\` continues a line. */
const commands = pages.flatMap((page) => {
  const text = blocksIn(readFileSync(join(root, page), 'utf8'), 'sh').join('\n');
  const lines = text.replaceAll('\\\n', ' ').split('\n');
  return lines.flatMap((line) => {
    const [, rest] = /^\s*(?:\.\/)?ductile ([a-z].*)$/.exec(line.replace(/\s#.*$/, '')) ?? [];
    return rest === undefined ? [] : [[page, rest] as const];
  });
});

/** `why` has one action, which is omitted on the command line. */
function toAction(noun: string, word: string): string {
  return noun === 'why' ? 'explain' : word;
}

/** The help of a command: that of its noun and action, or of a command that has no action. */
async function readHelp(words: string): Promise<string> {
  const [noun = '', word = ''] = words.split(' ');
  const action = toAction(noun, word);
  const isAction = /^[a-z][a-z-]*$/.test(action);
  const own = isAction ? await run([noun, action, '--help']) : undefined;
  const help = own?.out.includes(`${noun} ${action}`) ? own.out : (await run([noun, '--help'])).out;
  return `${help}\n${(await run(['--help'])).out}`;
}

describe('documentation', () => {
  test('has configurations to check', () => {
    expect(blocks.filter(isWhole).length).toBeGreaterThan(40);
  });

  test.each(blocks.filter(isWhole))('%s is accepted', async (_, yaml) => {
    expect(await findProblems(yaml)).toEqual([]);
  });

  test('has commands and flags that exist', async () => {
    const faults: string[] = [];
    for (const [page, line] of commands) {
      const help = await readHelp(line);
      const [noun = '', word = ''] = line.split(' ');
      const action = toAction(noun, word);
      const usage = /^Usage: (.*)$/m.exec(help)?.[1] ?? '';
      if (usage === '') faults.push(`${page}: ductile ${line}`);
      if (/^[a-z-]+$/.test(action) && /\[command\]/.test(usage)) {
        faults.push(`${page}: ${noun} has no ${action}`);
      }
      const written = line.replaceAll(/'[^']*'|"[^"]*"/g, '').split(/ [|&>;]/)[0] ?? '';
      for (const [flag] of written.matchAll(/(?<= )--[a-z-]+/g)) {
        if (!help.includes(flag)) faults.push(`${page}: ductile ${line}: no ${flag}`);
      }
    }
    expect(commands.length).toBeGreaterThan(100);
    expect(faults).toEqual([]);
  });
});
