import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Collects the licenses of the bundled packages, which must be part of every copy. */
export async function collectNotices(root: string, inputs: readonly string[]): Promise<string> {
  const packages = inputs
    .map((input) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1])
    .filter((name) => name !== undefined);
  const notices: string[] = [];
  for (const name of [...new Set(packages)].sort()) {
    const directory = join(root, 'node_modules', name);
    const license = (await readdir(directory)).find((file) => /^licen[cs]e/i.test(file));
    const source = join(directory, license ?? 'package.json');
    notices.push(`${name}\n\n${(await readFile(source, 'utf8')).trim()}\n`);
  }
  return notices.join(`\n${'-'.repeat(80)}\n\n`);
}
