import { join, resolve } from 'node:path';

/** An absolute path: `~/` is the home directory, anything relative starts at `base`. */
export function resolvePath(path: string, base: string, home: string): string {
  if (path === '~') return home;
  return path.startsWith('~/') ? join(home, path.slice(2)) : resolve(base, path);
}
