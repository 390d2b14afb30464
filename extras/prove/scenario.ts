import { noRules } from '../../src/ledger/rules.ts';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PRIVATE_DIRECTORY } from '../../src/base/files.ts';
import { makeLogger } from '../../src/base/log.ts';
import { loadConfig } from '../../src/config/load.ts';
import { requirePipeline } from '../../src/pipeline/run/start.service.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { copyForRehearsal, type CopyCounts } from './ledger-copy.sql.ts';
import { openReadonlyEngine } from '../../src/app/instance.ts';
import { createTestPlan, type TestPlan } from './test-plan.ts';
import { writeStubs } from './write-stubs.ts';
import { rehearsalPaths } from './isolate-config.ts';

/** Prepared rehearsal: the copied ledger, the stubs, and the tests to run. */
export interface Scenario {
  readonly directory: string;
  readonly kind: 'sqlite' | 'postgres';
  readonly testPlan: TestPlan;
  readonly copied: CopyCounts;
  readonly bytes: number;
  /** Problems that the ledger's check finds in the copy before the rehearsal. */
  readonly before: readonly string[];
}

/** Prepares a rehearsal in a temporary directory, passes it to `work`, and removes the directory. */
export async function withScenario<T>(
  configPath: string | undefined,
  pipeline: string | undefined,
  work: (scenario: Scenario) => Promise<T>,
): Promise<T> {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), 'ductile-prove-')));
  try {
    return await work(await prepare(configPath, pipeline, directory));
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

async function prepare(
  configPath: string | undefined,
  pipeline: string | undefined,
  directory: string,
): Promise<Scenario> {
  const config = loadConfig({ given: configPath });
  const paths = rehearsalPaths(directory);
  mkdirSync(paths.state, { mode: PRIVATE_DIRECTORY });
  const copied = await copyForRehearsal(config.state, paths.ledger);
  const ledger = await openLedger({ kind: 'sqlite', path: paths.ledger }, noRules);
  try {
    const log = makeLogger({ level: 'error', format: 'text', destination: process.stderr });
    const engine = await openReadonlyEngine(config, ledger, log);
    if (pipeline !== undefined) requirePipeline(pipeline, engine.pipelines);
    const testPlan = await createTestPlan(engine, ledger, pipeline);
    writeStubs(directory, engine.catalog.plugins, testPlan.responses);
    const { kind } = config.state;
    const before = await ledger.check();
    return { directory, kind, testPlan, copied, before, bytes: statSync(paths.ledger).size };
  } finally {
    await ledger.close();
  }
}
