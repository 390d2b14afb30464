/**
 * Counts branches only in projects with the variable `COUNTING`: the unit tests and the ledger tests.
 * Other tests would be slower, and they reach branches of the core only by chance.
 */
import v8 from '@vitest/coverage-v8';
import type { CoverageProviderModule } from 'vitest/node';
import { COUNTING } from './core.ts';

const coverage: CoverageProviderModule =
  process.env[COUNTING] === undefined ? { getProvider: () => v8.getProvider() } : v8;

export default coverage;
