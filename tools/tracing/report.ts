import { readFileSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { RecordedFunction } from './recorder.ts';

const root = resolve(import.meta.dirname, '../..');

export interface PathSummary {
  readonly title: string;
  readonly files: readonly FileSummary[];
  readonly functions: number;
  readonly folders: readonly string[];
}

export interface FileSummary {
  readonly file: string;
  readonly functions: readonly { readonly name: string; readonly calls: number }[];
}

/**
 * Groups functions by file, in the order of the first call. Files whose functions all execute in an idle
 * service, too, are left out.
 */
export function summarize(
  title: string,
  recorded: readonly RecordedFunction[],
  idle: readonly RecordedFunction[],
): PathSummary {
  const background = new Set(idle.map(keyOf));
  const depths = measureDepths([...new Set(recorded.map(({ url }) => url))]);
  const depthOf = ({ url }: RecordedFunction): number => depths.get(url) ?? 0;
  const inOrder = recorded.toSorted(
    (a, b) => a.turn - b.turn || depthOf(a) - depthOf(b) || a.offset - b.offset,
  );
  const functionsOf = Map.groupBy(inOrder, ({ url }) => url);
  // The service may do its own work at any time, so that work doesn't decide a file's position.
  const path = new Set(inOrder.filter((one) => !background.has(keyOf(one))).map(({ url }) => url));
  const files = [...path].map((url) => ({
    file: relative(root, fileURLToPath(url)),
    functions: (functionsOf.get(url) ?? []).map(({ name, calls }) => ({
      name: name || '(anonymous)',
      calls,
    })),
  }));
  return {
    title,
    files,
    functions: files.reduce((sum, { functions }) => sum + functions.length, 0),
    folders: [...new Set(files.map(({ file }) => dirname(file)))],
  };
}

function keyOf({ url, offset }: RecordedFunction): string {
  return `${url} ${offset}`;
}

/**
 * Measures the longest chain of imports that leads to each file. V8 gives no order within one turn of
 * the event loop, so a file is listed before the files that it imports.
 */
function measureDepths(urls: readonly string[]): ReadonlyMap<string, number> {
  const imports = new Map(urls.map((url) => [url, listImports(url)]));
  const depths = new Map(urls.map((url) => [url, 0]));
  // Imports have no cycle, so this ends after the longest chain.
  for (let isDone = false; !isDone;) {
    isDone = true;
    for (const [url, targets] of imports) {
      const deeper = (depths.get(url) ?? 0) + 1;
      for (const target of targets) {
        if ((depths.get(target) ?? Infinity) >= deeper) continue;
        depths.set(target, deeper);
        isDone = false;
      }
    }
  }
  return depths;
}

function listImports(url: string): string[] {
  const text = readFileSync(fileURLToPath(url), 'utf8');
  return [...text.matchAll(/ from '(\.[^']+)'/g)].map(([, path = '']) => new URL(path, url).href);
}

export function formatPath(path: PathSummary, withFunctions: boolean): string {
  const { title, files, functions, folders } = path;
  const counts = `${files.length} files, ${functions} functions, ${folders.length} folders`;
  const lines = files.flatMap(({ file, functions: called }, index) => {
    const head = `${String(index + 1).padStart(4)}  ${file}`;
    if (!withFunctions) return [`${head}  (${called.length})`];
    return [head, ...called.map(({ name, calls }) => `        ${name}  ${calls} ×`)];
  });
  return [`${title}: ${counts}`, ...lines, ''].join('\n');
}
