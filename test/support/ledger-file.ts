/** Setup of a test run: creates an empty ledger file, which tests copy. */
import { noRules } from '../../src/ledger/rules.ts';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { openLedger } from '../../src/ledger/open.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    ledgerFile: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  // Every project runs this setup, but the root provides the file for all of them.
  const root = project.vitest.getRootProject();
  if (root.getProvidedContext().ledgerFile !== undefined) return async () => {};
  const directory = await mkdtemp(join(tmpdir(), 'ductile-ledger-'));
  const path = join(directory, 'ledger.db');
  const ledger = await openLedger({ kind: 'sqlite', path }, noRules);
  await ledger.close();
  root.provide('ledgerFile', path);
  return () => rm(directory, { recursive: true, force: true });
}
