import { isAbsolute, join, relative, resolve, sep } from 'node:path';

/** An absolute path: `~/` is the home directory, anything relative starts at `base`. */
export function resolvePath(path: string, base: string, home: string): string {
  if (path === '~') return home;
  return path.startsWith('~/') ? join(home, path.slice(2)) : resolve(base, path);
}

/** Whether the path is the directory, or lies in it. */
export function isWithin(directory: string, path: string): boolean {
  const way = relative(directory, path);
  return way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}

/** Whether one of them is the other, or holds it. */
export function overlaps(one: string, other: string): boolean {
  return isWithin(one, other) || isWithin(other, one);
}
