import { readFileSync } from 'node:fs';
import { makeLogger } from '../../src/base/log.ts';
import { parseJson } from '../../src/base/parse-json.ts';
import { loadConfig } from '../../src/config/load.ts';
import { readBlueprint } from '../../src/app/blueprint.ts';
import { openServer, waitForStopSignal } from '../../src/app/server.ts';
import { stagePaths, standIn, type Stage } from './isolate-config.ts';

/**
 * Runs the engine of a rehearsal, in a process that may be killed at any moment. Everything is real
 * but the plugins and the ledger. It ends with its parent, whose end closes its standard input.
 */
export async function runRehearsal(given: string | undefined, directory: string): Promise<number> {
  process.stdin.once('end', () => process.exit(1)).resume();
  const stage = parseJson(readFileSync(stagePaths(directory).stage, 'utf8')) as Stage;
  const config = standIn(loadConfig({ given }), stage);
  const log = makeLogger({ level: 'info', format: 'json' });
  const stop = waitForStopSignal();
  const server = await openServer(config, log, stop, (next, inForce) =>
    // Installations have plugins of their own, which get stand-ins, too.
    readBlueprint(standIn(next, stage), inForce),
  );
  log.info('the rehearsal is ready');
  await stop;
  await server.close();
  process.stdin.destroy();
  return 0;
}
