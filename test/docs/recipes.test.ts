/** The recipes are complete and sound. */
import { readdirSync, readFileSync } from 'node:fs';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { cliHost } from '../../src/app/cli-host.ts';
import { makeDirectory } from '../support/directory.ts';
import { run, type CliResult } from '../support/fake-cli.ts';
import { parseSteps } from '../support/page-steps.ts';
import { pluginsRoot } from '../support/plugin-process.ts';
import { blocksIn } from '../support/program.ts';

const docs = resolve(import.meta.dirname, '../../docs');
const pages = readdirSync(join(docs, 'recipes')).filter((name) => name !== 'README.md');

const sections = [
  'Configuration',
  'Try it',
  'How it works',
  'Settings you may want to change',
  "If it doesn't work",
];

function readRecipe(page: string): string {
  return readFileSync(join(docs, 'recipes', page), 'utf8');
}

/** What the commands of a page print, as it shows it. */
function outputsIn(text: string): string {
  const consoles = parseSteps(text).filter((step) => step.kind === 'console');
  return consoles.flatMap(({ entries }) => entries.map(({ output }) => output)).join('');
}

function type(args: readonly string[], cwd: string): Promise<CliResult> {
  const host = { openLocal: cliHost.openLocal.bind(cliHost) };
  return run(args, { host, io: { cwd } });
}

/** Commands in sentences must exist, too. */
async function checkMentioned(text: string): Promise<void> {
  const mentioned = [...text.matchAll(/`(?:\.\/)?ductile ([a-z]+(?: [a-z]+)?)/g)];
  for (const words of new Set(mentioned.map(([, one = '']) => one))) {
    expect([words, (await type([...words.split(' '), '--help'], '/')).code]).toEqual([words, 0]);
  }
}

describe('recipes', () => {
  test('there are at least sixteen, and all are in the list', () => {
    const list = readRecipe('README.md');
    const linked = [...list.matchAll(/\]\(([\w-]+\.md)\)/g)].map(([, name = '']) => name);
    expect(linked.toSorted()).toEqual(pages.toSorted());
    expect(pages.length).toBeGreaterThanOrEqual(16);
  });

  test.each(pages)('%s has all sections in order', (page) => {
    const headings = [...readRecipe(page).matchAll(/^## (.*)$/gm)].map(([, title = '']) => title);
    expect(headings.filter((title) => sections.includes(title))).toEqual(sections);
  });

  test.each(pages)('%s shows its effect in a console block', (page) => {
    const text = readRecipe(page);
    const [result = ''] = blocksIn(text, 'text');
    const lines = result.trim().split('\n');
    expect(lines).not.toEqual(['']);
    expect(text.indexOf('```text')).toBeLessThan(text.indexOf('## Configuration'));
    const shown = outputsIn(text);
    for (const line of lines) expect(shown).toContain(line);
  });

  test.each(pages)('%s has a sound configuration, and commands that exist', async (page) => {
    const place = await makeDirectory();
    const text = readRecipe(page);
    const config = join(place, 'config');
    for (const step of parseSteps(text)) {
      if (step.kind !== 'file') continue;
      const path = step.path
        .replace('~/.config/ductile', config)
        .replace(/^~/, place)
        .replace(/^\/srv\b/, join(place, 'srv'));
      await mkdir(dirname(path), { recursive: true, mode: 0o700 });
      await writeFile(path, step.text.replaceAll(/(?<![\w.~-])\/srv\b/g, join(place, 'srv')));
      if (step.text.startsWith('#!')) await chmod(path, 0o755);
    }
    await writeFile(
      join(config, 'config.yaml'),
      `include: [conf.d]\nstate: { path: ./ductile.db }\nplugin_roots: [${pluginsRoot}, ./plugins]\n`,
    );
    await mkdir(join(config, 'plugins'), { recursive: true });
    const checked = await type(['config', 'check', '--config', config], place);
    expect([checked.code, checked.err]).toEqual([0, '']);
    // The test locks no files; this is the only reason for a warning.
    expect(checked.out).toMatch(/configuration is not locked[^]*0 errors, 1 warning/);
    await checkMentioned(text);
  });
});
