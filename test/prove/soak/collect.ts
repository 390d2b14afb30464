/** Lets a server collect its garbage, and asks what is left. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Server } from '../../support/crash/server.ts';
import { eventually } from '../../support/instance.ts';
import { COLLECT, LEFT_FILE, type HeapReport } from './left.ts';

/** The environment of such a server. */
export const collecting: Readonly<Record<string, string>> = {
  NODE_OPTIONS: `--import=${new URL('collecting.ts', import.meta.url).href}`,
};

export async function collect(server: Server, directory: string): Promise<HeapReport> {
  const before = readLeft(directory)?.times ?? 0;
  server.signal(COLLECT);
  return eventually('all garbage is collected', () => {
    const left = readLeft(directory);
    return left !== undefined && left.times > before ? left : undefined;
  });
}

function readLeft(directory: string): HeapReport | undefined {
  try {
    return JSON.parse(readFileSync(join(directory, LEFT_FILE), 'utf8')) as HeapReport;
  } catch {
    return undefined;
  }
}
