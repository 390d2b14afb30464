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
import type { Catalog } from '../plugin/catalog.ts';
import type { DirectiveDefinition } from '../directive/define.service.ts';
import type { Switches } from '../job/pause.service.ts';

export interface PauseSeams {
  readonly ledger: Ledger;
  readonly status: () => { readonly state: string; readonly running: readonly unknown[] };
  /** Acts on what the ledger says now. */
  readonly refresh: () => Promise<void>;
}

export function pauseDirective({
  ledger,
  status,
  refresh,
}: PauseSeams): DirectiveDefinition<object> {
  return {
    ...pauseType,
    async plan() {
      if (await isPaused(ledger)) return ['It is paused already; nothing would change.'];
      return [`No more jobs would start; ${status().running.length} running would go on.`];
    },
    prepare: () => ({ work: { kind: 'system.pause', paused: true } }),
    after: refresh,
  };
}

export function resumeDirective({ ledger, refresh }: PauseSeams): DirectiveDefinition<object> {
  return {
    ...resumeType,
    async plan() {
      if (!(await isPaused(ledger))) return ['It is not paused; nothing would change.'];
      const { ready } = await ledger.jobs.countQueue();
      return [`Jobs would start again; ${ready} are ready.`];
    },
    prepare: () => ({ work: { kind: 'system.pause', paused: false } }),
    after: refresh,
  };
}

export interface SwitchSeams {
  readonly switches: Switches;
  readonly catalog: () => Catalog;
  /** Acts on what the ledger says now about plugins that are off. */
  readonly onSwitch: () => Promise<void>;
}

export function switchDirective(
  { switches, catalog, onSwitch }: SwitchSeams,
  enabled: boolean,
): DirectiveDefinition<PluginChoice> {
  return {
    ...(enabled ? enableType : disableType),
    async plan({ plugin }) {
      await switches.refresh();
      if (!catalog().plugins.has(plugin)) {
        throw new DuctileError('PLUGIN_NOT_FOUND', `there is no plugin ${plugin}`, {
          hint: suggest(plugin, [...catalog().plugins.keys()], 'plugins'),
        });
      }
      if (switches.isOff(plugin) !== enabled) {
        return [`The plugin ${plugin} is ${enabled ? 'on' : 'off'} already; nothing would change.`];
      }
      if (enabled) return [`Jobs of ${plugin} would start again, and its schedules go on.`];
      return [`Jobs of ${plugin} would be accepted and wait; its schedules would not fire.`];
    },
    prepare: ({ plugin }) => ({ work: { kind: 'plugin.switch', plugin, enabled } }),
    after: onSwitch,
  };
}

async function isPaused(ledger: Ledger): Promise<boolean> {
  return (await ledger.meta.read('paused')) === '1';
}
