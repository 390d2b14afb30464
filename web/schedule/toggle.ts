import type { Schedule } from '../api/types.ts';
import { ask } from '../ui/confirm.tsx';

/** Asks whether to pause or resume a schedule. */
export function turnSchedule({ plugin, schedule_id, status }: Schedule, reload: () => void): void {
  const isPaused = status === 'paused';
  ask({
    title: `${isPaused ? 'Resume' : 'Pause'} the schedule ${schedule_id} of ${plugin}?`,
    word: isPaused ? 'Resume' : 'Pause',
    name: isPaused ? 'schedule.resume' : 'schedule.pause',
    input: { plugin, schedule_id },
    done() {
      reload();
      return isPaused ? 'Schedule resumed' : 'Schedule paused';
    },
  });
}
