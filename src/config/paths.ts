import { isAbsolute, join, relative, resolve, sep } from 'node:path';

/** Returns an absolute path: `~/` is the home directory, `base` is the parent of relative paths. */
export function resolvePath(path: string, base: string, home: string): string {
  if (path === '~') return home;
  return path.startsWith('~/') ? join(home, path.slice(2)) : resolve(base, path);
}

/** True if the path is the directory or inside it. */
export function isInsideDirectory(directory: string, path: string): boolean {
  const way = relative(directory, path);
  return way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}

/** True if one is the other, or contains it. */
export function overlaps(one: string, other: string): boolean {
  return isInsideDirectory(one, other) || isInsideDirectory(other, one);
}
