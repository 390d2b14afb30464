import * as z from 'zod';
import { pluginName } from '../config/fields.ts';
import { defineDirective, directiveIdField } from '../operation/define-directive.ts';
import { requireCommand, requireLoadedPlugin, type Catalog, type Plugin } from './catalog.ts';

export const initPluginDirective = defineDirective({
  type: 'plugin.init',
  summary: 'Set a plugin up again; its other jobs wait until that has succeeded.',
  lasting: 'What the init does cannot be undone.',
  scope: 'plugin:rw',
  params: z.strictObject({ plugin: pluginName().describe('the name of the plugin') }),
  startsWork: true,
  sameness: () => 'each',
  target: ({ plugin }) => plugin,
  plan({ catalog }, { plugin }) {
    requireWithInit(catalog, plugin);
    return [`The init of ${plugin} would run once; its other jobs would wait for its success.`];
  },
  async execute({ catalog, services: { pluginInits } }, { plugin }, { actor }) {
    const author = { submittedBy: 'directive', actor } as const;
    const { jobId, duplicateOf } = await pluginInits.rerun(
      requireWithInit(catalog, plugin),
      author,
    );
    return { plugin, job_id: duplicateOf ?? jobId };
  },
  operation: {
    effect: 'write',
    needs: 'server',
    output: z.object({
      plugin: z.string(),
      job_id: z.string().describe('the job that does it'),
      directive_id: directiveIdField,
    }),
    errors: ['COMMAND_NOT_FOUND', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'PLUGIN_NOT_FOUND'],
    http: {
      method: 'POST',
      path: '/plugins/:plugin/init',
      status: () => 202,
      statuses: [202],
      location: '/job/:job_id',
    },
    cli: { positionals: ['plugin'], examples: ['ductile plugin init mail'] },
  },
});

function requireWithInit(catalog: Catalog, name: string): Plugin {
  const plugin = requireLoadedPlugin(catalog, name);
  requireCommand(plugin, 'init');
  return plugin;
}
