/** The recipes are complete and sound. */
import { readdirSync, readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { cliHost } from '../../src/app/cli-host.ts';
import { makeDirectory } from '../support/directory.ts';
import { run, type CliResult } from '../support/fake-cli.ts';
import { pluginsRoot } from '../support/plugin-process.ts';

const docs = resolve(import.meta.dirname, '../../docs');
const pages = readdirSync(join(docs, 'recipes')).filter((name) => name !== 'README.md');

function blocksOf(text: string, language: string): string[] {
  const found = text.matchAll(new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``, 'g'));
  return [...found].map(([, block = '']) => block);
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
  test('all are in the list', () => {
    const list = readFileSync(join(docs, 'recipes/README.md'), 'utf8');
    const linked = [...list.matchAll(/\]\(([\w-]+\.md)\)/g)].map(([, name = '']) => name);
    expect(linked.toSorted()).toEqual(pages.toSorted());
  });

  test('each has a test that checks its effect', () => {
    const tests = ['recipe-effects.test.ts', 'recipe-alerts.test.ts']
      .map((name) => readFileSync(join(import.meta.dirname, name), 'utf8'))
      .join('\n');
    expect(pages.filter((page) => !tests.includes(page))).toEqual([]);
  });

  test.each(pages)('%s has sound configurations, and commands that exist', async (page) => {
    const place = await makeDirectory();
    const text = readFileSync(join(docs, 'recipes', page), 'utf8').replaceAll('/srv', place);
    const rest = `state: { path: ./state/ductile.db }\nplugin_roots: [${pluginsRoot}]\n`;
    const blocks = blocksOf(text, 'yaml');
    expect(blocks.length).toBeGreaterThan(0);
    for (const [index, yaml] of blocks.entries()) {
      const directory = join(place, `config-${index}`);
      await mkdir(directory);
      await writeFile(join(directory, 'config.yaml'), yaml + rest);
      const checked = await type(['config', 'check', '--config', directory], place);
      expect([checked.code, checked.err]).toEqual([0, '']);
      // The only warning is that the test didn't lock it.
      expect(checked.out).toMatch(/0 errors, 1 warning/);
    }
    await checkMentioned(text);
  });
});
