/** Bundles the dashboard: a page, a script and a style whose names change with their content. */
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { build, type Plugin } from 'esbuild';

export interface UiBundle {
  readonly files: readonly { readonly path: string; readonly contents: string | Uint8Array }[];
  /** The bundled sources, for their licenses. */
  readonly inputs: readonly string[];
}

export async function bundleUi(root: string, directory: string): Promise<UiBundle> {
  const { outputFiles, metafile } = await build({
    absWorkingDir: root,
    write: false,
    metafile: true,
    bundle: true,
    minify: true,
    platform: 'browser',
    target: ['chrome123', 'firefox128', 'safari17.5'],
    format: 'esm',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    logLevel: 'warning',
    entryPoints: ['web/main.tsx', 'web/style/main.css', 'web/icon.svg'],
    outdir: join(directory, 'assets'),
    outbase: 'web',
    entryNames: '[name]-[hash]',
    loader: { '.svg': 'copy' },
    plugins: [insertHttpRoutes()],
  });
  const names = new Map(
    outputFiles.map(({ path }) => [basename(path).replace(/-[^-]+\./, '.'), basename(path)]),
  );
  const page = await readFile(join(root, 'web', 'index.html'), 'utf8');
  const filled = page.replaceAll(/\{\{(.+?)\}\}/g, (_, name: string) => {
    const found = names.get(name);
    if (found === undefined) throw new Error(`the page wants ${name}, which was not built`);
    return `/ui/assets/${found}`;
  });
  return {
    files: [...outputFiles, { path: join(directory, 'index.html'), contents: filled }],
    inputs: Object.keys(metafile.inputs),
  };
}

/** Inserts the table of HTTP routes, so that the page contains no code of the service. */
function insertHttpRoutes(): Plugin {
  return {
    name: 'http routes',
    setup(bundler) {
      bundler.onLoad({ filter: /\/web\/api\/http-routes\.ts$/ }, async ({ path }) => {
        const { httpRoutes } = (await import(path)) as { httpRoutes: unknown };
        return {
          contents: `export const httpRoutes = ${JSON.stringify(httpRoutes)};`,
          loader: 'js',
        };
      });
    },
  };
}
