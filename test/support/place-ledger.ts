import { copyFile, mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { inject } from 'vitest';

/** Copies an empty ledger to a path, which is ten times faster than all migrations. */
export async function placeLedger(path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await copyFile(inject('ledgerFile'), path);
}
