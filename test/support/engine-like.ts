/**
 * A minimal service from the spawner's view: it starts a spawner and one plugin, and waits for its own
 * end. argv: the options of the host and the spec of the plugin, as JSON.
 */
import { makeHost, type HostOptions } from '../../src/plugin/host.ts';
import type { ProcessSpec } from '../../src/plugin/process.ts';

const [hostText = '', specText = ''] = process.argv.slice(2);
const host = makeHost({ ...(JSON.parse(hostText) as HostOptions), log: () => {} });
await host.start();
await host.run(JSON.parse(specText) as ProcessSpec, Buffer.alloc(0));
