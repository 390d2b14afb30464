/** Measures the same call as an MCP tool and as an HTTP endpoint. */
import { z } from 'zod';
import { listenApi } from '../../src/http/listeners.ts';
import { createMcpHttpHandler } from '../../src/mcp/http-handler.ts';
import { BENCH_TOKEN } from '../ductile.ts';
import { runNode } from '../program.ts';
import { payload, settings } from '../settings.ts';
import { errorLog, openWithoutProcesses, placeShape } from './ductile.ts';
import { measure } from './harness.ts';

const shape = placeShape.extend({ surface: z.enum(['MCP', 'REST']), isDry: z.boolean() });

await measure(shape, async ({ config, plugin, surface, isDry }) => {
  const engine = await openWithoutProcesses(config);
  const place = { host: '127.0.0.1', port: 0, mcp: createMcpHttpHandler('0') };
  const listener = await listenApi(place, engine, errorLog());
  const measures = await runNode('http-load', {
    port: Number(listener.address.split(':')[1]),
    connections: 1,
    warmUpSeconds: settings.warmUpSeconds,
    seconds: settings.httpSeconds,
    proof: ['authorization', `Bearer ${BENCH_TOKEN}`],
    ...(surface === 'MCP' ? asTool(plugin, isDry) : asEndpoint(plugin, isDry)),
  });
  await listener.close();
  return measures;
});

function asTool(plugin: string, isDry: boolean): object {
  const input = { plugin, command: 'handle', payload, dry_run: isDry };
  const params = { name: 'plugin_run', arguments: input };
  return {
    path: '/mcp',
    accept: 'application/json, text/event-stream',
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
    status: 200,
  };
}

function asEndpoint(plugin: string, isDry: boolean): object {
  return {
    path: `/plugin/${plugin}/handle${isDry ? '?dry_run=true' : ''}`,
    body: JSON.stringify({ payload }),
    status: isDry ? 200 : 202,
  };
}
