/**
 * Bundles the program into dist/ and compiles the native spawner into build/. Every file appears by a
 * rename, so that a running program isn't disturbed.
 */
import { mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { build, type BuildOptions, type BuildResult, type Plugin } from 'esbuild';
import { bundleUi, type UiBundle } from './build-ui.ts';
import { collectNotices } from './collect-notices.ts';
import { compileSpawner } from './compile-spawner.ts';

const root = dirname(import.meta.dirname);
const dist = join(root, 'dist');
/** Large modules of Node that most commands don't need. */
const lateModules = ['child_process', 'crypto', 'dns', 'http', 'https', 'net', 'tls'];
type Part = 'look' | 'back' | 'mcp' | 'prove' | 'watch' | 'workshop';
/** Bundles that the command line loads on demand, each with the sources that other bundles import from it. */
const parts: Readonly<Record<Part, readonly string[]>> = {
  look: ['src/app/fast-read.ts'],
  // The SDK is far larger than the code that uses it.
  mcp: ['src/mcp/sdk.ts'],
  back: [
    'src/app/blueprint.ts',
    'src/app/demo.ts',
    'src/app/instance.ts',
    'src/app/local-engine.ts',
    'src/app/mcp.ts',
    'src/app/server.ts',
    'src/app/transfer.ts',
    'src/base/log.ts',
    'src/config/document.ts',
    'src/config/load.ts',
    'src/ledger/backup.ts',
    'src/ledger/migrate.ts',
    'src/ledger/open-readonly.ts',
    'src/ledger/open.ts',
    'src/ledger/sqlite/store.ts',
    'src/pipeline/run/start.service.ts',
    'src/plugin/host.ts',
    'src/plugin/manifest.ts',
    'src/plugin/payload.ts',
    'src/ledger/postgres/open.ts',
    'src/ledger/postgres/store.ts',
    'src/operation/all.ts',
  ],
  prove: ['extras/prove/run-rehearsal.ts', 'extras/prove/prover.ts'],
  watch: ['extras/watch/watch.ts'],
  workshop: ['extras/workshop/workshop.ts'],
};
const dayMs = 24 * 60 * 60 * 1000;

const startedAt = performance.now();
// The launcher compares the sources with this file's time, so it is created at the start.
const stamp = await prepareStamp();
const written = await publish(await bundle(), await bundleUi(root, join(dist, 'ui')));
const native = await buildSpawner();
await rename(stamp, join(dist, '.stamp'));
await removeLeftovers(written);
const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
console.log(`built dist (${written.size} files) and ${native} in ${seconds} s`);

async function prepareStamp(): Promise<string> {
  const path = join(dist, '.stamp-new');
  await mkdir(dist, { recursive: true });
  await mkdir(join(root, 'build'), { recursive: true });
  await writeFile(path, '');
  return path;
}

/** Computes the tables of commands and findings at build time, instead of at every start. */
function commandTable(): Plugin {
  return {
    name: 'command table',
    setup(bundler) {
      bundler.onLoad({ filter: /\/src\/cli\/commands\.ts$/ }, async ({ path }) => {
        const tables = Object.entries((await import(path)) as object);
        const lines = tables.map(
          ([name, table]) => `export const ${name} = ${JSON.stringify(table)};`,
        );
        return { contents: lines.join('\n'), loader: 'js' };
      });
    },
  };
}

type Bundle = BuildResult<{ write: false; metafile: true }>;

async function bundle(): Promise<Bundle[]> {
  const common = {
    absWorkingDir: root,
    write: false as const,
    metafile: true as const,
    bundle: true,
    platform: 'node',
    target: 'node24',
    sourcemap: 'linked',
    logLevel: 'warning',
    external: ['pg-native'],
  } satisfies BuildOptions;
  // CommonJS: modules are initialized when they are first used, and Node's own modules load less than
  // they would for an ES module.
  const program = {
    ...common,
    format: 'cjs',
    define: { 'import.meta.dirname': '__dirname' },
    // The bundles load each other with `require`, which exists already.
    supported: { 'dynamic-import': false },
    // Identifiers are kept, so that stack traces are readable.
    minifySyntax: true,
    minifyWhitespace: true,
  } satisfies BuildOptions;
  const table = commandTable();
  const late = lateBuiltins();
  const entry = (name: Part) => ({
    stdin: {
      contents: reexport(parts[name]),
      resolveDir: root,
      sourcefile: `${name}.ts`,
      loader: 'ts' as const,
    },
    outfile: join(dist, `${name}.cjs`),
  });
  const results = [
    build({
      ...program,
      entryPoints: ['src/main.ts'],
      outfile: join(dist, 'main.cjs'),
      plugins: [table, otherFiles(), late],
    }),
    build({
      ...program,
      entryPoints: parts.look.concat(),
      outfile: join(dist, 'look.cjs'),
      plugins: [table, otherFiles(), late],
    }),
    build({
      ...program,
      entryPoints: parts.mcp.concat(),
      outfile: join(dist, 'mcp.cjs'),
      plugins: [late],
    }),
    build({
      ...program,
      ...entry('back'),
      plugins: [table, otherFiles(['mcp', 'prove', 'workshop']), late],
    }),
    // These use the service in back.cjs instead of a copy.
    build({ ...program, ...entry('prove'), plugins: [table, importFrom('back'), late] }),
    build({ ...program, ...entry('workshop'), plugins: [table, importFrom('back'), late] }),
    build({ ...program, ...entry('watch'), plugins: [table, late] }),
    build({
      ...common,
      entryPoints: ['src/plugin/spawner/node-spawner.ts'],
      outfile: join(dist, 'node-spawner.js'),
      format: 'esm',
    }),
  ];
  // esbuild has already printed the errors.
  return Promise.all(results).catch(() => process.exit(1));
}

/** Points dynamic imports to the bundles that contain their sources. */
function otherFiles(names: readonly string[] = Object.keys(parts)): Plugin {
  return {
    name: 'other files',
    setup(bundler) {
      bundler.onResolve({ filter: /\.ts$/ }, ({ path, resolveDir, kind }) => {
        if (kind !== 'dynamic-import') return undefined;
        const source = relative(root, join(resolveDir, path));
        const found = Object.entries(parts).find(
          ([name, sources]) => names.includes(name) && sources.includes(source),
        );
        return found === undefined ? undefined : { path: `./${found[0]}.cjs`, external: true };
      });
    },
  };
}

/** Imports sources from another bundle, instead of bundling them again. */
function importFrom(name: Part): Plugin {
  return {
    name: `import from ${name}`,
    setup(bundler) {
      bundler.onResolve({ filter: /\.ts$/ }, ({ path, resolveDir }) => {
        const source = relative(root, join(resolveDir, path));
        return parts[name].includes(source) ? { path: `./${name}.cjs`, external: true } : undefined;
      });
    },
  };
}

function reexport(sources: readonly string[]): string {
  return sources.map((source) => `export * from ${JSON.stringify(`./${source}`)};`).join('\n');
}

/** Loads large modules of Node when they are first used, and not when a file that imports them is loaded. */
function lateBuiltins(): Plugin {
  return {
    name: 'late builtins',
    setup(bundler) {
      const filter = new RegExp(`^(node:)?(${lateModules.join('|')})$`);
      bundler.onResolve({ filter }, ({ path, namespace }) =>
        namespace === 'late' ? undefined : { path, namespace: 'late' },
      );
      bundler.onLoad({ filter: /^/, namespace: 'late' }, async ({ path }) => {
        const { default: module } = (await import(path)) as { default: object };
        const getters = Object.keys(module).map(
          (name) => `get ${name}() { return all().${name}; }`,
        );
        const contents = `const all = () => process.getBuiltinModule(${JSON.stringify(path)});
          module.exports = { ${getters.join(', ')} };`;
        return { contents, loader: 'js' };
      });
    },
  };
}

async function publish(bundles: readonly Bundle[], ui: UiBundle): Promise<Set<string>> {
  const inputs = bundles.flatMap(({ metafile }) => Object.keys(metafile.inputs));
  const files = [
    {
      path: join(dist, 'NOTICES.txt'),
      contents: await collectNotices(root, [...inputs, ...ui.inputs]),
    },
    ...bundles.flatMap(({ outputFiles }) => outputFiles),
    ...ui.files,
  ];
  for (const { path, contents } of files) {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(`${path}.new`, contents);
    await rename(`${path}.new`, path);
  }
  return new Set(files.map(({ path }) => path));
}

/** Compiles the native spawner. Without a C compiler the service uses the spawner for Node. */
async function buildSpawner(): Promise<string> {
  const name = `build/spawner-${process.platform}-${process.arch}`;
  const output = join(root, name);
  const compiler = process.env['CC'] ?? 'cc';
  const kind = compileSpawner(compiler, `${output}.new`, console.warn);
  if (kind !== undefined) {
    await rename(`${output}.new`, output);
    return `${name} (${kind})`;
  }
  console.warn(
    `warning: ${compiler} did not compile native/spawner.c; Node starts the plugins then`,
  );
  // A spawner of an earlier build may not fit this one.
  await rm(output, { force: true });
  return 'no native spawner';
}

/** Removes files of earlier builds after a day, because a running program may still load them. */
async function removeLeftovers(current: ReadonlySet<string>): Promise<void> {
  for (const entry of await readdir(dist, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (!entry.isFile() || current.has(path) || !isBundle(path)) continue;
    const { mtimeMs } = await stat(path);
    if (Date.now() - mtimeMs > dayMs) await rm(path);
  }
  await rm(join(root, 'build', 'compile-cache'), { recursive: true, force: true });
}

function isBundle(path: string): boolean {
  return !path.startsWith(join(dist, 'plugins')) && /\.(c?js(\.map)?|css|svg)$/.test(path);
}
