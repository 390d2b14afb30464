import { readFileSync } from 'node:fs';
import { makeLogger } from '../../src/base/log.ts';
import { parseJson } from '../../src/base/parse-json.ts';
import { loadConfig } from '../../src/config/load.ts';
import { readBlueprint } from '../../src/app/blueprint.ts';
import { openServer, waitForStopSignal } from '../../src/app/server.ts';
import { rehearsalPaths, isolateConfig, type RehearsalSetup } from './isolate-config.ts';

/**
 * Runs the service of a rehearsal in this process, which may be killed at any moment. Only the plugins
 * and the ledger are replaced. The process ends when its parent ends, which closes its standard input.
 */
export async function runRehearsal(
  configPath: string | undefined,
  directory: string,
): Promise<number> {
  process.stdin.once('end', () => process.exit(1)).resume();
  const setup = parseJson(readFileSync(rehearsalPaths(directory).setup, 'utf8')) as RehearsalSetup;
  const config = isolateConfig(loadConfig({ given: configPath }), setup);
  const log = makeLogger({ level: 'info', format: 'json' });
  const stop = waitForStopSignal();
  const server = await openServer(config, log, stop, (next, inForce) =>
    // Installed packages bring plugins of their own, which are replaced, too.
    readBlueprint(isolateConfig(next, setup), inForce),
  );
  log.info('the rehearsal is ready');
  await stop;
  await server.close();
  process.stdin.destroy();
  return 0;
}
