import * as z from 'zod';
import { pluginName } from '../config/fields.ts';
import { defineOperation } from '../operation/define.ts';
import { direct, directErrors, planDirective } from '../directive/request.operations.ts';

const input = z.strictObject({ plugin: pluginName().describe('the name of the plugin') });
const output = z.object({
  plugin: z.string(),
  enabled: z.boolean(),
  directive_id: z.string().describe('the record of this change'),
});

export const enablePlugin = defineOperation({
  name: 'plugin.enable',
  summary: 'Start jobs of a plugin again after it was disabled.',
  effect: 'write',
  scope: 'plugin:rw',
  input,
  output,
  errors: [...directErrors, 'INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'PLUGIN_NOT_FOUND'],
  http: { method: 'POST', path: '/plugins/:plugin/enable' },
  cli: { positionals: ['plugin'], examples: ['ductile plugin enable mail'] },
  async run(context, { plugin }) {
    const { id } = await direct(context, 'plugin.enable', { plugin });
    return { plugin, enabled: true, directive_id: id };
  },
  plan: (context, { plugin }) => planDirective(context, 'plugin.enable', { plugin }),
});

export const disablePlugin = defineOperation({
  name: 'plugin.disable',
  summary:
    'Start no more jobs of a plugin and fire none of its schedules; jobs are still accepted.',
  effect: 'write',
  scope: 'plugin:rw',
  input,
  output,
  errors: [...directErrors, 'INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'PLUGIN_NOT_FOUND'],
  http: { method: 'POST', path: '/plugins/:plugin/disable' },
  cli: { positionals: ['plugin'], examples: ['ductile plugin disable mail --dry-run'] },
  async run(context, { plugin }) {
    const { id } = await direct(context, 'plugin.disable', { plugin });
    return { plugin, enabled: false, directive_id: id };
  },
  plan: (context, { plugin }) => planDirective(context, 'plugin.disable', { plugin }),
});
