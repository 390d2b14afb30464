import * as z from 'zod';
import { compact } from '../base/json.ts';
import { commandName, pluginName } from '../config/fields.ts';
import { defineDirective, directiveIdField } from '../operation/define-directive.ts';
import { pluginNotFound } from '../plugin/catalog.ts';
import { resetBreakers } from './breaker.sql.ts';

export const resetBreakerDirective = defineDirective({
  type: 'breaker.reset',
  summary: 'Close the circuit breakers of a plugin, so that its schedules fire again.',
  lasting: 'The failures that were counted are not counted any more.',
  scope: 'system:rw',
  params: z.strictObject({
    plugin: pluginName().describe('the name of the plugin'),
    command: commandName().optional().describe('only the breaker of this command'),
  }),
  isForHandlers: true,
  sameness: () => 'each',
  target: ({ plugin, command }) => (command === undefined ? plugin : `${plugin}/${command}`),
  async plan({ ledger, config, catalog }, { plugin, command }) {
    if (!Object.hasOwn(config.plugins, plugin) && !catalog.plugins.has(plugin)) {
      throw pluginNotFound(catalog, plugin);
    }
    const breakers = await ledger.breakers.list({ plugin, ...compact({ command }) });
    const moved = breakers.filter(
      ({ state, failureCount }) => state !== 'closed' || failureCount > 0,
    );
    if (moved.length === 0) return [`No breaker of ${plugin} is open; nothing would change.`];
    return moved.map(
      ({ command: name, state, failureCount }) =>
        `The breaker of ${plugin} ${name}, ${state} after ${failureCount} failures, would be closed.`,
    );
  },
  prepare: (_context, { plugin, command }) => ({
    work: (tx) => resetBreakers(tx, { plugin, ...compact({ command }) }),
  }),
  after: ({ commits }) => commits.publish({ schedules: true }),
  operation: {
    name: 'system.reset',
    effect: 'write',
    output: z.object({
      plugin: z.string(),
      reset: z.array(z.string()).describe('the breakers that were not closed, as plugin/command'),
      directive_id: directiveIdField,
    }),
    errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'PLUGIN_NOT_FOUND'],
    http: { method: 'POST', path: '/system/reset' },
    cli: {
      positionals: ['plugin'],
      examples: ['ductile system reset mail', 'ductile system reset mail --dry-run'],
    },
    toOutput: (_context, { input: { plugin }, result: { reset } }) => ({
      plugin,
      reset: Array.isArray(reset) ? reset.map(String) : [],
    }),
  },
});
