/**
 * Bundles the program into dist/ and compiles the native spawner into build/. Whoever runs the
 * program meanwhile is not disturbed: every file appears by a rename, after the files it imports.
 */
import { spawnSync } from 'node:child_process';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { build, type BuildResult } from 'esbuild';

const root = dirname(import.meta.dirname);
const dist = join(root, 'dist');
const chunks = join(dist, 'chunks');
const dayMs = 24 * 60 * 60 * 1000;

const startedAt = performance.now();
// The launcher compares the sources with this file's time, so it is that of the beginning.
const stamp = await prepareStamp();
const made = await publish(await bundle());
const native = await compileSpawner();
await rename(stamp, join(dist, '.stamp'));
await removeLeftovers(made);
const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
console.log(`built dist (${made.size} files) and ${native} in ${seconds} s`);

async function prepareStamp(): Promise<string> {
  const path = join(dist, '.stamp-new');
  await mkdir(chunks, { recursive: true });
  await mkdir(join(root, 'build'), { recursive: true });
  await writeFile(path, '');
  return path;
}

type Bundle = BuildResult<{ write: false; metafile: true }>;

async function bundle(): Promise<Bundle> {
  const result = build({
    absWorkingDir: root,
    entryPoints: {
      main: 'src/main.ts',
      'node-spawner': 'src/plugin/spawner/node-spawner.ts',
    },
    outdir: dist,
    write: false,
    metafile: true,
    chunkNames: 'chunks/[name]-[hash]',
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node24',
    sourcemap: 'linked',
    logLevel: 'warning',
    external: ['pg-native'],
    // CommonJS packages inside an ES module still ask for Node's own modules with `require`.
    banner: {
      js: [
        "import { createRequire as makeRequire } from 'node:module';",
        'const require = makeRequire(import.meta.url);',
      ].join(' '),
    },
  });
  // esbuild itself has said what is wrong, better than a stack trace would.
  return result.catch(() => process.exit(1));
}

async function publish({ outputFiles, metafile }: Bundle): Promise<Set<string>> {
  const notices = await collectNotices(Object.keys(metafile.inputs));
  const files = [
    { path: join(dist, 'NOTICES.txt'), contents: notices },
    ...outputFiles.filter(({ path }) => path.startsWith(chunks)),
    ...outputFiles.filter(({ path }) => !path.startsWith(chunks)),
  ];
  for (const { path, contents } of files) {
    await writeFile(`${path}.new`, contents);
    await rename(`${path}.new`, path);
  }
  return new Set(files.map(({ path }) => path));
}

/** The licences of the bundled packages ask to be handed on with every copy. */
async function collectNotices(inputs: readonly string[]): Promise<string> {
  const packages = inputs
    .map((input) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1])
    .filter((name) => name !== undefined);
  const notices: string[] = [];
  for (const name of [...new Set(packages)].sort()) {
    const directory = join(root, 'node_modules', name);
    const license = (await readdir(directory)).find((file) => /^licen[cs]e/i.test(file));
    const source = join(directory, license ?? 'package.json');
    notices.push(`${name}\n\n${(await readFile(source, 'utf8')).trim()}\n`);
  }
  return notices.join(`\n${'-'.repeat(80)}\n\n`);
}

/** A host without a C compiler is fine: then plugins are started by the helper written for Node. */
async function compileSpawner(): Promise<string> {
  const source = join(root, 'native', 'spawner.c');
  const name = `build/spawner-${process.platform}-${process.arch}`;
  const output = join(root, name);
  const compiler = process.env['CC'] ?? 'cc';
  const flags = ['-std=gnu17', '-O2', '-Wall', '-Wextra', '-o', `${output}.new`, source];
  for (const kind of ['static', 'dynamic']) {
    const extra = kind === 'static' ? ['-static'] : [];
    const run = spawnSync(compiler, [...extra, ...flags], { encoding: 'utf8' });
    if (run.error === undefined && run.stderr !== '') console.warn(run.stderr);
    if (run.status !== 0) continue;
    await rename(`${output}.new`, output);
    return `${name} (${kind})`;
  }
  console.warn(
    `warning: ${compiler} did not compile native/spawner.c; Node starts the plugins then`,
  );
  // An older one would not fit the rest of this build.
  await rm(output, { force: true });
  return 'no native spawner';
}

/** A program that still runs from an earlier build may load its chunks for one more day. */
async function removeLeftovers(current: ReadonlySet<string>): Promise<void> {
  for (const file of await readdir(chunks)) {
    const path = join(chunks, file);
    if (current.has(path)) continue;
    const { mtimeMs } = await stat(path);
    if (Date.now() - mtimeMs > dayMs) await rm(path);
  }
  await rm(join(root, 'build', 'compile-cache'), { recursive: true, force: true });
}
