import { showRow } from '../base/show-row.ts';
import { compact } from '../base/json.ts';
import * as z from 'zod';
import { commandName, pluginName } from '../config/fields.ts';
import { breakerStates } from './breaker.ts';
import { defineOperation } from '../operation/define.ts';
import { limitField } from '../operation/page.ts';
import { refuseUnknownPlugin } from '../plugin/catalog.ts';

const time = z.string().describe('UTC, ISO 8601 with milliseconds');
const command = commandName().optional().describe('only the breaker of this command');

const breakerShape = z.object({
  plugin: z.string(),
  command: z.string(),
  state: z.enum(breakerStates),
  failure_count: z.int(),
  threshold: z.int().describe('failures in a row that open it'),
  reset_after_ms: z.int().describe('from its opening until one probe is let through'),
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
  summary: 'Show the circuit breakers of a plugin, and how they came to be what they are.',
  effect: 'read',
  scope: 'system:ro',
  input: z.strictObject({
    plugin: pluginName().optional().describe('the name of the plugin; all unless told'),
    command,
    limit: limitField,
  }),
  output: z.object({
    breakers: z.array(breakerShape),
    transitions: z.array(transitionShape),
  }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'PLUGIN_NOT_FOUND'],
  http: { method: 'GET', path: '/system/breaker/:plugin?' },
  cli: {
    positionals: ['plugin'],
    flags: { limit: '-n, --limit <count>' },
    examples: ['ductile system breaker mail', 'ductile system breaker --json'],
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
