/** Packages for tests: a directory with a manifest each. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { JsonObject } from '../../src/base/json.ts';
import type { Signal } from '../../src/signal/signal.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';

/** Creates a minimal manifest. JSON is valid YAML. */
export function manifest(more: JsonObject = {}): JsonObject {
  return {
    manifest_spec: 'ductile.package',
    manifest_version: 1,
    slug: 'greeter',
    version: '1.0.0',
    title: 'Greets',
    category: 'operations',
    ...more,
  };
}

export async function writePackage(directory: string, content: JsonObject): Promise<void> {
  await mkdir(directory, { recursive: true });
  const file = join(directory, 'package.yaml');
  await writeFile(file, JSON.stringify(content, undefined, 2), { mode: 0o644 });
}

/** Lists the types of all signals, the oldest first. */
export async function listSignalTypes(ledger: Ledger): Promise<string[]> {
  return (await listSignals(ledger)).map(({ type }) => type);
}

export function listSignals(ledger: Ledger): Promise<Signal[]> {
  return ledger.signals.list({ limit: 500, order: 'oldest' });
}
