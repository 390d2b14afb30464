import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';

/** Where this program's own files are, whether it runs bundled or from its sources. */
export interface InstallPaths {
  readonly root: string;
  readonly version: string;
  readonly nodeSpawner: string;
  readonly nativeSpawner: string;
  readonly plugins: string;
  readonly packages: string;
  /** What plugins are made with. */
  readonly sdk: string;
  /** The files of the dashboard; they are made by the build, and not there before it. */
  readonly ui: string;
}

export function findInstallPaths(from: string = import.meta.dirname): InstallPaths {
  const root = findRoot(from);
  const bundled = join(root, 'dist', 'node-spawner.js');
  const source = join(root, 'src', 'plugin', 'spawner', 'node-spawner.ts');
  const packed = join(root, 'dist', 'plugins');
  const packedPackages = join(root, 'dist', 'packages');
  const packedSdk = join(root, 'dist', 'sdk');
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
  };
}

/** What whoever started this program types to start it again. */
export function findTypedCommand(
  root: string,
  { argv, cwd }: { readonly argv: readonly string[]; readonly cwd: string },
): string {
  const launcher = join(root, 'ductile');
  // An installed program is found by its name; that of a clone is started by a script of its own.
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
