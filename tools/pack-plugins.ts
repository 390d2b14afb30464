/**
 * Copies the shipped plugins to dist/plugins, and the packages and the SDK beside them, for the npm
 * package. Node doesn't strip types below node_modules, so each plugin in TypeScript is bundled into one
 * JavaScript file.
 */
import { chmod, cp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { build } from 'esbuild';

const root = dirname(import.meta.dirname);
const source = join(root, 'plugins');
const target = join(root, 'dist', 'plugins');

await rm(target, { recursive: true, force: true });
await cp(source, target, {
  recursive: true,
  filter: (path) => !/\.ts$|__pycache__/.test(path),
});
for (const plugin of await readdir(source)) {
  const manifest = join(target, plugin, 'manifest.yaml');
  const text = await readFile(manifest, 'utf8').catch(() => '');
  if (!/^entrypoint: run\.ts$/m.test(text)) continue;
  const program = join(target, plugin, 'run.js');
  await build({
    entryPoints: [join(source, plugin, 'run.ts')],
    outfile: program,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node24',
    logLevel: 'warning',
  });
  await chmod(program, 0o755);
  await writeFile(manifest, text.replace('entrypoint: run.ts', 'entrypoint: run.js'));
}
for (const name of ['packages', 'sdk']) {
  const directory = join(root, 'dist', name);
  await rm(directory, { recursive: true, force: true });
  const filter = (path: string): boolean => !path.includes('__pycache__');
  await cp(join(root, name), directory, { recursive: true, filter });
}
console.log('wrote dist/plugins, dist/packages and dist/sdk');
