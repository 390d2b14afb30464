/**
 * Counts which branches of the core are taken, in the projects whose environment asks for it: the
 * tests of the rules and of the ledger. The others would only be slower, and what they reach of the
 * core they reach by chance.
 */
import v8 from '@vitest/coverage-v8';
import type { CoverageProviderModule } from 'vitest/node';
import { COUNTING } from './core.ts';

const coverage: CoverageProviderModule =
  process.env[COUNTING] === undefined ? { getProvider: () => v8.getProvider() } : v8;

export default coverage;
