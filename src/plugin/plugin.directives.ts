import * as z from 'zod';
import { pluginName } from '../config/fields.ts';
import type { DirectiveContext } from '../engine/directive-context.ts';
import { switchPlugin } from '../job/plugin-state.sql.ts';
import { enforceSwitches } from '../job/pause.service.ts';
import { defineDirective, directiveIdField } from '../operation/define-directive.ts';
import { requireLoadedPlugin, requireCommand, type Catalog, type Plugin } from './catalog.ts';

const common = {
  scope: 'plugin:rw',
  // Members have the scope too: it lets them run commands.
  role: 'admin',
  params: z.strictObject({ plugin: pluginName().describe('the name of the plugin') }),
  isForHandlers: true,
  sameness: () => 'toggle' as const,
  target: ({ plugin }: { readonly plugin: string }) => plugin,
  after: ({ services: { switches, dispatcher } }: DirectiveContext) =>
    enforceSwitches(switches, dispatcher),
} as const;

const commonOperation = {
  effect: 'write',
  output: z.object({ plugin: z.string(), enabled: z.boolean(), directive_id: directiveIdField }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'PLUGIN_NOT_FOUND'],
} as const;

export const enablePluginDirective = defineDirective({
  ...common,
  type: 'plugin.enable',
  summary: 'Enable a disabled plugin. Its jobs start and its schedules fire again.',
  async plan(context, { plugin }) {
    if (!(await isDisabled(context, plugin))) {
      return [`The plugin ${plugin} is already enabled; nothing would change.`];
    }
    return [`Jobs of ${plugin} will start and its schedules will fire again.`];
  },
  prepare: (_context, { plugin }) => ({
    work: (tx, actor) => switchPlugin(tx, { plugin, enabled: true }, actor),
  }),
  operation: {
    ...commonOperation,
    http: { method: 'POST', path: '/plugins/:plugin/enable' },
    cli: { positionals: ['plugin'], examples: ['ductile plugin enable mail'] },
  },
});

export const disablePluginDirective = defineDirective({
  ...common,
  type: 'plugin.disable',
  summary: 'Disable a plugin. Its jobs are still accepted but wait, and its schedules do not fire.',
  async plan(context, { plugin }) {
    if (await isDisabled(context, plugin)) {
      return [`The plugin ${plugin} is already disabled; nothing would change.`];
    }
    return [`Jobs of ${plugin} will be accepted but wait. Its schedules will not fire.`];
  },
  prepare: (_context, { plugin }) => ({
    work: (tx, actor) => switchPlugin(tx, { plugin, enabled: false }, actor),
  }),
  operation: {
    ...commonOperation,
    http: { method: 'POST', path: '/plugins/:plugin/disable' },
    cli: { positionals: ['plugin'], examples: ['ductile plugin disable mail --dry-run'] },
  },
});

async function isDisabled(
  { catalog, services: { switches } }: DirectiveContext,
  plugin: string,
): Promise<boolean> {
  await switches.refresh();
  requireLoadedPlugin(catalog, plugin);
  return switches.isDisabled(plugin);
}

export const initPluginDirective = defineDirective({
  type: 'plugin.init',
  summary: "Run a plugin's init again. Its other jobs wait until the init has succeeded.",
  lasting: 'The effects of the init cannot be undone.',
  scope: 'plugin:rw',
  params: z.strictObject({ plugin: pluginName().describe('the name of the plugin') }),
  startsWork: true,
  findStarted: (_context, { plugin }) => [{ plugin, command: 'init' }],
  sameness: () => 'each',
  target: ({ plugin }) => plugin,
  plan({ catalog }, { plugin }) {
    requireWithInit(catalog, plugin);
    return [
      `The init of ${plugin} will run once. Its other jobs will wait until it has succeeded.`,
    ];
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
      job_id: z.string().describe('the job that runs the init'),
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
