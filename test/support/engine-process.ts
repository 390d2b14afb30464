/** Runs an engine in its own process until SIGTERM: `node engine-process.ts <config file>`. */
import { openInstance } from '../../src/app/instance.ts';
import { makeLogger } from '../../src/base/log.ts';
import { loadConfig } from '../../src/config/load.ts';

const log = makeLogger({ level: 'debug', format: 'json' });
const instance = await openInstance(loadConfig({ given: process.argv[2] }), log);
process.once('SIGTERM', () => void instance.close());
await instance.engine.start();
log.info('engine is ready', { process_id: instance.engine.processId });
