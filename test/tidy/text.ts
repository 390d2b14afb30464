import type { TextFile } from './tree.ts';

const linesMax = 400;
/** C needs more lines for the same thing. */
const linesMaxOfC = 900;
const columnsMax = 120;

interface Ban {
  readonly what: string;
  readonly pattern: RegExp;
  readonly appliesTo: (path: string) => boolean;
}

// The classes of one letter keep these patterns from matching themselves.
const bans: readonly Ban[] = [
  { what: 'unfinished work', pattern: /\b(TO[D]O|FIX[M]E|XX[X])\b/, appliesTo: isCode },
  {
    what: 'a test left out',
    pattern: /\b(test|it|describe)\.(onl[y]|ski[p]|tod[o])\b/,
    appliesTo: isCode,
  },
  {
    what: 'a silenced type error',
    pattern: /@ts-(ignor[e]|nochec[k])|\bas an[y]\b/,
    appliesTo: isCode,
  },
  {
    what: 'a path of somebody’s machine',
    pattern: /(^|[^\w.-])\/(wor[k]|far[m]|roo[t]|hom[e]|User[s])\//,
    appliesTo: (path) => path !== 'package-lock.json',
  },
  {
    what: 'the address of a package registry',
    pattern: /registry\.(npmj[s]|yarnpk[g])|(deb|security)\.debia[n]\.|"resolve[d]": "http/,
    appliesTo: () => true,
  },
];

export function findTextFaults({ path, text }: TextFile): string[] {
  const faults: string[] = [];
  const lines = text.split('\n');
  const max = /\.[ch]$/.test(path) ? linesMaxOfC : linesMax;
  if (isCode(path) && lines.length - 1 > max) faults.push(`${path}: more than ${max} lines`);
  for (const [index, line] of lines.entries()) {
    const place = `${path}:${index + 1}`;
    if (isCode(path) && line.length > columnsMax)
      faults.push(`${place}: more than ${columnsMax} columns`);
    for (const { what, pattern, appliesTo } of bans) {
      if (appliesTo(path) && pattern.test(line)) faults.push(`${place}: ${what}`);
    }
  }
  return faults;
}

function isCode(path: string): boolean {
  return (
    /\.(ts|tsx|cjs|mjs|js|c|h|sh|py)$/.test(path) || /^(ductile|\.ci\/\w+|tools\/\w+)$/.test(path)
  );
}
