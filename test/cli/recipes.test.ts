/** What the recipes and the first five minutes tell people to write and to type works. */
import { readdirSync, readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { cliHost } from '../../src/app/cli-host.ts';
import { makeDirectory } from '../support/directory.ts';
import { run, type Told } from '../support/fake-cli.ts';
import { pluginsRoot } from '../support/plugin-process.ts';

const docs = resolve(import.meta.dirname, '../../docs');
const pages = readdirSync(join(docs, 'recipes')).filter((name) => name !== 'README.md');

/** What asks the internet, or an agent that is not there, is only looked at. */
const isFar = /^plugin (run|health) (http-fetch|agent(?! --command scaffold))/;

function blocksOf(text: string, language: string): string[] {
  const found = text.matchAll(new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``, 'g'));
  return [...found].map(([, block = '']) => block);
}

function commandsOf(text: string): string[] {
  const lines = blocksOf(text, 'sh').flatMap((block) => block.trim().split('\n'));
  return lines.map((line) => line.replace(/^(\.\/)?ductile /, ''));
}

function wordsOf(line: string): string[] {
  const words = line.match(/(?:'[^']*'|"[^"]*"|[^\s'"])+/g) ?? [];
  return words.map((word) => word.replaceAll(/^['"]|['"]$/g, ''));
}

function type(args: readonly string[], cwd: string): Promise<Told> {
  const host = { openLocal: cliHost.openLocal.bind(cliHost) };
  return run(args, { host, io: { cwd } });
}

/** Commands that stand in sentences are there, too. */
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

  test.each(pages)('%s', async (page) => {
    const place = await makeDirectory();
    const text = readFileSync(join(docs, 'recipes', page), 'utf8').replaceAll('/srv', place);
    const [yaml = ''] = blocksOf(text, 'yaml');
    for (const name of ['tasks', 'old/2019', 'config']) {
      await mkdir(join(place, name), { recursive: true });
    }
    const directory = join(place, 'config');
    const rest = `state: { path: ./state/ductile.db }\nplugin_roots: [${pluginsRoot}]\n`;
    await writeFile(join(directory, 'config.yaml'), yaml + rest);
    const [made = [], lines = []] = [true, false].map((isMade) =>
      ['config check', ...commandsOf(text)].filter((line) => line.startsWith('mkdir ') === isMade),
    );
    for (const name of made.flatMap((line) => wordsOf(line).slice(2))) {
      await mkdir(name, { recursive: true });
    }
    expect(lines.length).toBeGreaterThan(2);
    for (const line of lines) {
      const args = [
        ...wordsOf(line),
        '--config',
        directory,
        ...(isFar.test(line) ? ['--help'] : []),
      ];
      const { code, err } = await type(args, place);
      expect([line, code, err]).toEqual([line, 0, '']);
    }
    await checkMentioned(text);
  });
});

test('five minutes', async () => {
  const home = await makeDirectory();
  vi.stubEnv('HOME', home);
  const text = readFileSync(join(docs, 'start/five-minutes.md'), 'utf8').replaceAll(
    '~/',
    `${home}/`,
  );
  const told: string[] = [];
  for (const line of commandsOf(text).filter((one) => one !== 'system start')) {
    const { code, out, err } = await type(wordsOf(line), home);
    expect([line, code, err]).toEqual([line, 0, '']);
    told.push(out);
  }
  const all = told.join('\n');
  expect(all).toMatch(/greet: \d+ passed\n/);
  expect(all).toContain('"result":"Hello, Ann"');
  expect(all).toMatch(/2026-12-01T08:02:00\S* .*greet/);
  await checkMentioned(text);
  vi.unstubAllEnvs();
});
