import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { ConfigFile } from './config.ts';
import type { Found } from './find.ts';
import { makeProblem } from './problem.ts';
import type { Problem } from './problem.ts';

/** What people call the parts of a configuration; a file of such a name is meant to be one. */
const usualNames = ['api', 'pipelines', 'plugins', 'routes', 'tokens', 'webhooks'];

/** Files beside the root that look like a part of it, and that nothing includes. */
export function findUnread(
  { directory }: Found,
  files: readonly Pick<ConfigFile, 'path'>[],
): Problem[] {
  const read = new Set(files.map(({ path }) => path));
  return usualNames
    .flatMap((name) => [`${name}.yaml`, `${name}.yml`])
    .filter((name) => !read.has(join(directory, name)) && existsSync(join(directory, name)))
    .map((name) =>
      makeProblem(
        join(directory, name),
        '',
        'is not read: nothing includes it',
        `Add \`include: [${name}]\` to config.yaml, or move the file away.`,
      ),
    );
}
