import type { Schedule } from '../api/types.ts';
import { confirmChange } from '../ui/confirm.tsx';

/** Pauses or resumes a schedule, after a confirmation. */
export function toggleSchedule(
  { plugin, schedule_id, status }: Schedule,
  reload: () => void,
): void {
  const isPaused = status === 'paused';
  confirmChange({
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
