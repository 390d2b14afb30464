import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';

/** Locations of this program's own files, bundled or run from sources. */
interface InstallPaths {
  readonly root: string;
  readonly version: string;
  readonly nodeSpawner: string;
  readonly nativeSpawner: string;
  readonly plugins: string;
  readonly packages: string;
  /** The directory of the SDK for plugins. */
  readonly sdk: string;
  /** The dashboard's files, which the build creates. */
  readonly ui: string;
  /** The documentation site, which tools/build-docs creates. */
  readonly docs: string;
  /** The directory with the pages of the documentation, which only a clone has. */
  readonly docsSource: string | undefined;
}

export function findInstallPaths(from: string = import.meta.dirname): InstallPaths {
  const root = findRoot(from);
  const bundled = join(root, 'dist', 'node-spawner.js');
  const source = join(root, 'src', 'plugin', 'spawner', 'node-spawner.ts');
  const packed = join(root, 'dist', 'plugins');
  const packedPackages = join(root, 'dist', 'packages');
  const packedSdk = join(root, 'dist', 'sdk');
  const docsSource = join(root, 'docs');
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    version: string;
  };
  return {
    root,
    version: manifest.version,
    nodeSpawner: existsSync(bundled) ? bundled : source,
    nativeSpawner: join(root, 'build', `spawner-${process.platform}-${process.arch}`),
    plugins: existsSync(packed) ? packed : join(root, 'plugins'),
    packages: existsSync(packedPackages) ? packedPackages : join(root, 'packages'),
    sdk: existsSync(packedSdk) ? packedSdk : join(root, 'sdk'),
    ui: join(root, 'dist', 'ui'),
    docs: join(root, 'dist', 'docs'),
    docsSource: existsSync(docsSource) ? docsSource : undefined,
  };
}

/** Returns the command that the user typed to start this program. */
export function findTypedCommand(
  root: string,
  { argv, cwd }: { readonly argv: readonly string[]; readonly cwd: string },
): string {
  const launcher = join(root, 'ductile');
  // An installed program is on the path; a clone has a launcher script.
  if (basename(argv[1] ?? '') === 'ductile' || !existsSync(launcher)) return 'ductile';
  const path = relative(cwd, launcher);
  return path === 'ductile' ? './ductile' : path;
}

function findRoot(from: string): string {
  for (let directory = from; ; directory = dirname(directory)) {
    if (existsSync(join(directory, 'package.json'))) return directory;
    if (directory === dirname(directory)) throw new Error(`no package.json above ${from}`);
  }
}
