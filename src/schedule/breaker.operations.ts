import { showRow } from '../base/show-row.ts';
import { compact } from '../base/json.ts';
import * as z from 'zod';
import { commandName, pluginName } from '../config/fields.ts';
import { breakerStates } from './breaker.ts';
import { defineOperation } from '../operation/define.ts';
import { limitField } from '../operation/page.ts';
import { refuseUnknownPlugin, pluginNotFound } from '../plugin/catalog.ts';
import { defineDirective, directiveIdField } from '../operation/define-directive.ts';
import { resetBreakers } from './breaker.sql.ts';

const time = z.string().describe('UTC, ISO 8601 with milliseconds');
const commandField = commandName().optional().describe('only the breaker of this command');

const breakerShape = z.object({
  plugin: z.string(),
  command: z.string(),
  state: z.enum(breakerStates),
  failure_count: z.int(),
  threshold: z.int().describe('failures in a row that open it'),
  reset_after_ms: z.int().describe('time from opening until one probe job may start'),
  opened_at: time.nullable(),
  last_failure_at: time.nullable(),
  last_job_id: z.string().nullable(),
});

const transitionShape = z.object({
  plugin: z.string(),
  command: z.string(),
  from_state: z.enum(breakerStates).nullable(),
  to_state: z.enum(breakerStates),
  failure_count: z.int(),
  reason: z.string(),
  job_id: z.string().nullable(),
  created_at: time,
});

export const systemBreaker = defineOperation({
  name: 'system.breaker',
  summary: "Show a plugin's circuit breakers and their history.",
  effect: 'read',
  scope: 'system:ro',
  input: z.strictObject({
    plugin: pluginName().optional().describe('the name of the plugin (default: all)'),
    command: commandField,
    limit: limitField,
  }),
  output: z.object({
    breakers: z.array(breakerShape),
    transitions: z.array(transitionShape),
  }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'PLUGIN_NOT_FOUND'],
  http: { method: 'GET', path: '/system/breaker/:plugin?' },
  cli: {
    command: 'breaker show',
    positionals: ['plugin'],
    flags: { limit: '-n, --limit <count>' },
    examples: ['ductile breaker show mail', 'ductile breaker show mail --json'],
    variants: [
      {
        command: 'breaker list',
        summary: 'List the circuit breakers and their states.',
        positionals: [],
        examples: ['ductile breaker list', 'ductile breaker list --plugin mail'],
      },
    ],
  },
  async run({ engine: { ledger, catalog } }, { limit: rows, ...input }) {
    const filter = {
      ...compact({ plugin: input.plugin, command: input.command }),
    };
    const [breakers, transitions] = await Promise.all([
      ledger.breakers.list(filter),
      ledger.breakers.listTransitions({ ...filter, limit: rows }),
    ]);
    const isEmpty = breakers.length + transitions.length === 0;
    if (isEmpty && input.plugin !== undefined) refuseUnknownPlugin(catalog, input.plugin);
    return {
      breakers: breakers.map((row) => showRow(breakerShape, row, {})),
      transitions: transitions.map((row) => showRow(transitionShape, row, {})),
    };
  },
});

export const resetBreakerDirective = defineDirective({
  type: 'breaker.reset',
  summary: 'Close the circuit breakers of a plugin, so that its schedules fire again.',
  lasting: 'Earlier failures no longer count.',
  scope: 'system:rw',
  params: z.strictObject({
    plugin: pluginName().describe('the name of the plugin'),
    command: commandField,
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
        `The breaker of ${plugin} ${name}, ${state} after ${failureCount} failures, will be closed.`,
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
      reset: z.array(z.string()).describe('the breakers that were reset, as plugin/command'),
      directive_id: directiveIdField,
    }),
    errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'PLUGIN_NOT_FOUND'],
    http: { method: 'POST', path: '/system/reset' },
    cli: {
      command: 'breaker reset',
      positionals: ['plugin'],
      examples: ['ductile breaker reset mail', 'ductile breaker reset mail --dry-run'],
    },
    toOutput: (_context, { input: { plugin }, result: { reset } }) => ({
      plugin,
      reset: Array.isArray(reset) ? reset.map(String) : [],
    }),
  },
});
