/** The commands of the first pages work for a newcomer, in an empty home. */
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { makeDirectory } from '../support/directory.ts';

const root = resolve(import.meta.dirname, '../..');

/** Commands that run for ever or for minutes. */
const isEndless = /^(npm test|\.\/ductile (demo|system start))/;

async function blocksOf(page: string, language: string): Promise<string[]> {
  const text = await readFile(join(root, page), 'utf8');
  const found = text.matchAll(new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``, 'g'));
  return [...found].map(([, block = '']) => block);
}

async function type(home: string, block: string): Promise<string> {
  const lines = block.split('\n').filter((line) => !isEndless.test(line));
  const latest = './ductile job list --json | grep -m1 job_id | cut -d\\" -f4';
  const script = lines.join('\n').replaceAll('<id>', `$(${latest})`);
  const env = { PATH: process.env['PATH'], HOME: home };
  return new Promise((done, failed) => {
    execFile('sh', ['-ec', script], { cwd: root, env }, (error, out, err) => {
      if (error === null) done(out);
      else failed(new Error(`${script}\n${out}${err}`));
    });
  });
}

/** Reads a code block by the name in the comment before it. */
async function readBlock(page: string, name: string): Promise<string> {
  const text = await readFile(join(root, page), 'utf8');
  const pattern = new RegExp(`<!-- block: ${name} -->\\n\\n\`\`\`\\w+\\n([^]*?)\`\`\``);
  const [, block] = pattern.exec(text) ?? [];
  if (block === undefined) throw new Error(`${page} has no block ${name}`);
  return block;
}

test('README.md', async () => {
  const home = await makeDirectory();
  const typeBlock = async (name: string) => await type(home, await readBlock('README.md', name));
  expect(await readBlock('README.md', 'try')).toMatch(/^\.\/ductile demo .*\nnpm test /);
  const first = await typeBlock('init');
  expect(first).toMatch(/status +succeeded/);
  expect(first).toMatch(/echo +poll +succeeded/);
  expect(await readBlock('README.md', 'start')).toMatch(/^\.\/ductile system start /);

  const file = join(home, '.config/ductile/config.yaml');
  const example = await readBlock('README.md', 'example');
  await writeFile(file, `plugin_roots: ["${root}/plugins"]\n${example}`);
  const played = await typeBlock('webhook');
  expect(played).toContain('/hooks/github');
  expect(played).toMatch(/deploy +shell\.run +succeeded/);
});

test('examples/inbox', async () => {
  const home = await makeDirectory();
  const [look = '', use = ''] = await blocksOf('examples/inbox/README.md', 'sh');
  const tested = await type(home, look);
  expect(tested).toContain('Nothing is wrong.');
  expect(tested).toMatch(/status +succeeded/);
  const [chosen = ''] = /^export .*\n/m.exec(look) ?? [];
  const latest = './ductile run list --json | grep -m1 run_id | cut -d\\" -f4';
  const used = await type(home, chosen + use.replaceAll('<run>', `$(${latest})`));
  expect(used).toMatch(/incoming +succeeded/);
  expect(used).toContain('small.txt: 1 ');
});
