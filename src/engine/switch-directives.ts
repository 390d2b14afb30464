import * as z from 'zod';
import type { DirectiveType } from '../directive/directive.ts';

export interface PluginChoice {
  readonly plugin: string;
}

export const pauseType = systemType('system.pause', 'Start no more jobs; accept them still.');
export const resumeType = systemType('system.resume', 'Start jobs again after a pause.');

export const enableType = pluginType('plugin.enable', 'Start jobs of a plugin again.');
export const disableType = pluginType(
  'plugin.disable',
  'Start no more jobs of a plugin and schedule none; accept them still.',
);

function systemType(type: string, summary: string): DirectiveType<object> {
  return {
    type,
    summary,
    scope: 'system:rw',
    params: z.strictObject({}),
    sameness: () => 'toggle',
    target: () => '',
  };
}

function pluginType(type: string, summary: string): DirectiveType<PluginChoice> {
  return {
    type,
    summary,
    scope: 'plugin:rw',
    // Members have the scope too: it lets them run commands.
    role: 'admin',
    params: z.strictObject({ plugin: z.string().min(1) }),
    sameness: () => 'toggle',
    target: ({ plugin }) => plugin,
  };
}
