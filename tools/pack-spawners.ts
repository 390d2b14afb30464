/**
 * Compiles the spawner for the other platforms of the npm package, if this machine has their cross
 * compilers. On other platforms the service uses the spawner for Node.
 */
import { dirname, join } from 'node:path';
import { compileSpawner } from './compile-spawner.ts';

const root = dirname(import.meta.dirname);
const compilers: Readonly<Record<string, string>> = {
  'linux-arm64': 'aarch64-linux-gnu-gcc',
  'linux-x64': 'x86_64-linux-gnu-gcc',
};

for (const [platform, compiler] of Object.entries(compilers)) {
  if (platform === `${process.platform}-${process.arch}`) continue;
  const output = join(root, 'build', `spawner-${platform}`);
  const kind = compileSpawner(compiler, output, console.warn);
  const written = `wrote build/spawner-${platform} (${kind})`;
  console.log(kind === undefined ? `no ${compiler}, no ${platform}` : written);
}
