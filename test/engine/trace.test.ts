/** `npm run trace` shows the path of real work through the code. */
import { execFile } from 'node:child_process';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import type { PathSummary } from '../../tools/tracing/report.ts';

const root = resolve(import.meta.dirname, '../..');

/** The number of files that one path may execute. Lower them when a path gets shorter. */
const filesMax = { webhook: 69, schedule: 56, foreach: 86 };

let paths: Readonly<Record<keyof typeof filesMax, PathSummary>>;

beforeAll(async () => {
  const program = join(root, 'tools/tracing/main.ts');
  const { stdout } = await promisify(execFile)(process.execPath, [program, '--json'], {
    maxBuffer: 16 * 1024 * 1024,
  });
  const [webhook, schedule, foreach] = JSON.parse(stdout) as readonly PathSummary[];
  if (webhook === undefined || schedule === undefined || foreach === undefined)
    throw new Error('a path is missing');
  paths = { webhook, schedule, foreach };
});

describe.each(Object.keys(filesMax) as (keyof typeof filesMax)[])('the path of a %s', (name) => {
  test('executes no more files than before', () => {
    const { files } = paths[name];
    expect(files.length).toBeLessThanOrEqual(filesMax[name]);
  });

  test('claims the job before it reads the response of its plugin', () => {
    const files = paths[name].files.map(({ file }) => file);
    const claimed = files.indexOf('src/job/claim.sql.ts');
    expect(claimed).toBeGreaterThan(0);
    expect(files.indexOf('src/plugin/response.ts')).toBeGreaterThan(claimed);
  });
});

test('names the functions and counts their calls', () => {
  const calls = paths.foreach.files.flatMap(({ functions }) => functions);
  expect(calls.some(({ calls: count }) => count >= 3)).toBe(true);
  expect(paths.foreach.folders).toContain('src/pipeline/run');
});
