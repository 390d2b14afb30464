import * as z from 'zod';
import type { DirectiveType } from '../directive/directive.ts';

/** The parameters of a directive about a schedule. */
export interface ScheduleChoice {
  readonly plugin: string;
  readonly schedule_id: string;
}

/** The parameters of a reset. Without a command, all breakers of the plugin are closed. */
export interface BreakerChoice {
  readonly plugin: string;
  readonly command?: string | undefined;
}

export const pauseScheduleType = scheduleType(
  'schedule.pause',
  'Let a schedule pass its due times without firing, until it is resumed.',
);
export const resumeScheduleType = scheduleType(
  'schedule.resume',
  'Let a paused schedule fire again, from now on.',
);

export const resetBreakerType: DirectiveType<BreakerChoice> = {
  type: 'breaker.reset',
  lasting: 'The failures that were counted are not counted any more.',
  summary: 'Close the circuit breakers of a plugin, so that its schedules fire again.',
  scope: 'system:rw',
  params: z.strictObject({ plugin: z.string().min(1), command: z.string().min(1).optional() }),
  sameness: () => 'each',
  target: ({ plugin, command }) => (command === undefined ? plugin : `${plugin}/${command}`),
};

function scheduleType(type: string, summary: string): DirectiveType<ScheduleChoice> {
  return {
    type,
    summary,
    scope: 'schedule:rw',
    params: z.strictObject({
      plugin: z.string().min(1),
      schedule_id: z.string().min(1).default('default'),
    }),
    sameness: () => 'toggle',
    target: ({ plugin, schedule_id: id }) => `${plugin}/${id}`,
  };
}
