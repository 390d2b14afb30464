/** Runs the commands of a documentation page, and the service beside them. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { text as readText } from 'node:stream/consumers';
import { expect, onTestFinished } from 'vitest';
import { makeDirectory } from './directory.ts';
import { eventually } from './instance.ts';
import { parseSteps } from './page-steps.ts';
import { pluginsRoot } from './plugin-process.ts';

const root = resolve(import.meta.dirname, '../..');

/** Change of a documented configuration, so that a test needn't wait for minutes or use the internet. */
export type Edit = readonly [before: string | RegExp, after: string];

export interface Program {
  /** Replaces `/srv` in recipes, and is the home directory. */
  readonly place: string;
  /** Runs a line in a shell where `ductile` is a command; returns its output. */
  readonly type: (line: string) => Promise<string>;
  /** Starts the service; it is stopped at the end of the test. */
  readonly start: () => Promise<Service>;
  /** Waits for messages in a file of `notify`. */
  readonly messages: (file: string, count: number) => Promise<string[]>;
}

export interface Service {
  /** Listeners from its log, such as `127.0.0.1:41234`. */
  readonly addresses: readonly string[];
}

/** Lists the code blocks of a page in one language. */
export function blocksIn(page: string, language: string): string[] {
  const found = page.matchAll(new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``, 'g'));
  return [...found].map(([, block = '']) => block);
}

/** Opens a recipe: writes its files, and returns its commands. */
export async function openRecipe(
  page: string,
  edits: readonly Edit[] = [],
): Promise<Program & { readonly commands: readonly string[] }> {
  const place = await makeDirectory();
  const written = await readFile(join(root, 'docs/recipes', page), 'utf8');
  const steps = parseSteps(written.replaceAll(/(?<![\w.~-])\/srv\b/g, place));
  const recipe: string[] = [];
  for (const step of steps) {
    if (step.kind !== 'file') continue;
    if (step.path.includes('/conf.d/')) {
      recipe.push(step.text);
    } else {
      const path = step.path.replace('~', place);
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, step.text);
      if (step.text.startsWith('#!')) await chmod(path, 0o755);
    }
  }
  const rest = `state: { path: ./state/ductile.db }\nplugin_roots: [${pluginsRoot}]\n`;
  const program = await openProgram(place, (recipe[0] ?? '') + rest, edits);
  const commands = steps.flatMap((step) =>
    step.kind === 'console' ? step.entries.map(({ command }) => command) : [],
  );
  return { ...program, commands };
}

/** Opens an example in its own home directory. */
export async function openExample(name: string, edits: readonly Edit[] = []): Promise<Program> {
  const place = await makeDirectory();
  const written = await readFile(join(root, 'examples', name, 'config.yaml'), 'utf8');
  return openProgram(place, written.replace('../../plugins', pluginsRoot), edits);
}

async function openProgram(
  place: string,
  written: string,
  edits: readonly Edit[],
): Promise<Program> {
  let yaml = written;
  for (const [before, after] of edits) {
    expect(yaml).toMatch(before);
    yaml = yaml.replace(before, after);
  }
  const config = join(place, 'config');
  await mkdir(config, { mode: 0o700 });
  await writeFile(join(config, 'config.yaml'), yaml);
  const bin = join(place, 'bin');
  await mkdir(bin, { recursive: true });
  const launcher = join(root, 'bin/ductile.cjs');
  await writeFile(
    join(bin, 'ductile'),
    `#!/bin/sh\nexec '${process.execPath}' '${launcher}' "$@"\n`,
  );
  await chmod(join(bin, 'ductile'), 0o755);
  const env = {
    PATH: `${bin}:${process.env['PATH'] ?? ''}`,
    HOME: place,
    DUCTILE_CONFIG_DIR: config,
  };
  return {
    place,
    type: (line) => type(line, env, place),
    start: () => start(env, place),
    messages: (file, count) =>
      eventually(`there are ${count} messages in ${file}`, async () => {
        const lines = await readFile(join(place, file), 'utf8').catch(() => '');
        const found = lines.split('\n').filter((line) => line !== '');
        const messages = found.map((line) => (JSON.parse(line) as { message: string }).message);
        return messages.length >= count && messages;
      }),
  };
}

function type(line: string, env: NodeJS.ProcessEnv, cwd: string): Promise<string> {
  return new Promise((done, failed) => {
    execFile('sh', ['-ec', line], { cwd, env }, (error, out, err) => {
      if (error === null) done(out);
      else failed(new Error(`${line}\n${out}${err}`));
    });
  });
}

async function start(env: NodeJS.ProcessEnv, cwd: string): Promise<Service> {
  const words = [join(root, 'bin/ductile.cjs'), 'system', 'start'];
  const child = spawn(process.execPath, words, { cwd, env, stdio: 'pipe' });
  const closed = once(child, 'close');
  onTestFinished(async () => {
    child.kill('SIGTERM');
    await closed;
  });
  const complaints = readText(child.stderr);
  const addresses: string[] = [];
  for await (const line of createInterface(child.stdout)) {
    addresses.push(...(line.match(/127\.0\.0\.1:\d+/g) ?? []));
    if (line.includes('ductile is ready')) {
      child.stdout.resume();
      return { addresses };
    }
  }
  throw new Error(`the service did not start: ${await complaints}`);
}
