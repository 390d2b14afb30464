import type { Schedule } from '../api/types.ts';
import { ask } from '../ui/ask.tsx';

/** Asks whether a schedule is to fire or not. */
export function turnSchedule({ plugin, schedule_id, status }: Schedule, reload: () => void): void {
  const isPaused = status === 'paused';
  ask({
    title: `${isPaused ? 'Resume' : 'Pause'} the schedule ${schedule_id} of ${plugin}?`,
    word: isPaused ? 'Resume' : 'Pause',
    name: isPaused ? 'schedule.resume' : 'schedule.pause',
    input: { plugin, schedule_id },
    done() {
      reload();
      return isPaused ? 'It fires again.' : 'It is paused.';
    },
  });
}
