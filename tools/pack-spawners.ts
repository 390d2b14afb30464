/**
 * Compiles the spawner for the other platforms of the published package, as far as this machine has
 * cross compilers. Where none is in the package, Node starts the plugins.
 */
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';

const root = dirname(import.meta.dirname);
const compilers: Readonly<Record<string, string>> = {
  'linux-arm64': 'aarch64-linux-gnu-gcc',
  'linux-x64': 'x86_64-linux-gnu-gcc',
};

for (const [platform, compiler] of Object.entries(compilers)) {
  if (platform === `${process.platform}-${process.arch}`) continue;
  const output = join(root, 'build', `spawner-${platform}`);
  const source = join(root, 'native', 'spawner.c');
  const args = ['-static', '-std=gnu17', '-O2', '-Wall', '-Wextra', '-o', output, source];
  const { status } = spawnSync(compiler, args, { stdio: ['ignore', 'inherit', 'inherit'] });
  console.log(status === 0 ? `wrote build/spawner-${platform}` : `no ${compiler}, no ${platform}`);
}
