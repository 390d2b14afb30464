import type { Dispatcher } from '../job/dispatcher.service.ts';
import { enforceSwitches, type Pause, type Switches } from '../job/pause.service.ts';
import type { LedgerContext } from './context.ts';
import { DuctileError } from '../base/errors.ts';
import { suggest } from '../config/nearest.ts';
import {
  disableType,
  enableType,
  pauseType,
  resumeType,
  type PluginChoice,
} from './switch-directives.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { DirectiveDefinition } from '../directive/define.service.ts';

export function pauseDirective(
  { ledger }: LedgerContext,
  pause: Pick<Pause, 'changed'>,
  dispatcher: Pick<Dispatcher, 'running'>,
): DirectiveDefinition<object> {
  return {
    ...pauseType,
    async plan() {
      if (await isPaused(ledger)) return ['It is paused already; nothing would change.'];
      return [`No more jobs would start; ${dispatcher.running.length} running would go on.`];
    },
    prepare: () => ({ work: { kind: 'system.pause', paused: true } }),
    after: () => pause.changed(),
  };
}

export function resumeDirective(
  { ledger }: LedgerContext,
  pause: Pick<Pause, 'changed'>,
): DirectiveDefinition<object> {
  return {
    ...resumeType,
    async plan() {
      if (!(await isPaused(ledger))) return ['It is not paused; nothing would change.'];
      const { ready } = await ledger.jobs.countQueue();
      return [`Jobs would start again; ${ready} are ready.`];
    },
    prepare: () => ({ work: { kind: 'system.pause', paused: false } }),
    after: () => pause.changed(),
  };
}

export function switchDirective(
  context: LedgerContext,
  switches: Switches,
  dispatcher: Pick<Dispatcher, 'withhold'>,
  enabled: boolean,
): DirectiveDefinition<PluginChoice> {
  return {
    ...(enabled ? enableType : disableType),
    async plan({ plugin }) {
      await switches.refresh();
      if (!context.catalog.plugins.has(plugin)) {
        throw new DuctileError('PLUGIN_NOT_FOUND', `there is no plugin ${plugin}`, {
          hint: suggest(plugin, [...context.catalog.plugins.keys()], 'plugins'),
        });
      }
      if (switches.isOff(plugin) !== enabled) {
        return [`The plugin ${plugin} is ${enabled ? 'on' : 'off'} already; nothing would change.`];
      }
      if (enabled) return [`Jobs of ${plugin} would start again, and its schedules go on.`];
      return [`Jobs of ${plugin} would be accepted and wait; its schedules would not fire.`];
    },
    prepare: ({ plugin }) => ({ work: { kind: 'plugin.switch', plugin, enabled } }),
    after: () => enforceSwitches(switches, dispatcher),
  };
}

async function isPaused(ledger: Ledger): Promise<boolean> {
  return (await ledger.meta.read('paused')) === '1';
}
