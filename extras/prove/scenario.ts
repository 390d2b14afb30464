import { noRules } from '../../src/ledger/rules.ts';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PRIVATE_DIRECTORY } from '../../src/base/files.ts';
import { makeLogger } from '../../src/base/log.ts';
import { loadConfig } from '../../src/config/load.ts';
import { findPipeline } from '../../src/pipeline/run/start.service.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { copyForRehearsal, type Rehearsed } from './ledger-copy.sql.ts';
import { openOnlooker } from '../../src/app/instance.ts';
import { writeScript, type Script } from './test-plan.ts';
import { buildStage } from './write-stubs.ts';
import { stagePaths } from './isolate-config.ts';

/** Prepared rehearsal. */
export interface Scene {
  readonly directory: string;
  readonly kind: 'sqlite' | 'postgres';
  readonly script: Script;
  readonly copied: Rehearsed;
  readonly bytes: number;
  /** Problems of the copy before the rehearsal. */
  readonly before: readonly string[];
}

/** Prepares a rehearsal in a directory of its own, and removes it at the end. */
export async function onStage<T>(
  given: string | undefined,
  pipeline: string | undefined,
  work: (scene: Scene) => Promise<T>,
): Promise<T> {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), 'ductile-prove-')));
  try {
    return await work(await prepare(given, pipeline, directory));
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

async function prepare(
  given: string | undefined,
  pipeline: string | undefined,
  directory: string,
): Promise<Scene> {
  const config = loadConfig({ given });
  const paths = stagePaths(directory);
  mkdirSync(paths.state, { mode: PRIVATE_DIRECTORY });
  const copied = await copyForRehearsal(config.state, paths.ledger);
  const ledger = await openLedger({ kind: 'sqlite', path: paths.ledger }, noRules);
  try {
    const log = makeLogger({ level: 'error', format: 'text', destination: process.stderr });
    const engine = await openOnlooker(config, ledger, log);
    if (pipeline !== undefined) findPipeline(pipeline, engine.pipelines);
    const script = await writeScript(engine, ledger, pipeline);
    buildStage(directory, engine.catalog.plugins, script.answers);
    const { kind } = config.state;
    const before = await ledger.check();
    return { directory, kind, script, copied, before, bytes: statSync(paths.ledger).size };
  } finally {
    await ledger.close();
  }
}
