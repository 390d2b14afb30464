import { askDecision } from '../run/confirm-decision.tsx';
import { ask } from '../ui/confirm.tsx';
import type { Remedy } from './remedy.ts';

const REASON = 'Reason (optional, for the record)';

/** Shows the plan of a remedy, and carries it out when the reader agrees. */
export function askRemedy(remedy: Remedy, reload: () => void): void {
  const { name, input, title, word, done, reason } = remedy;
  if (name === 'run.approve' || name === 'run.reject') {
    const { id, step } = input;
    askDecision({ runId: String(id), step: String(step), isYes: name === 'run.approve', reload });
    return;
  }
  ask({
    title,
    word,
    name,
    input,
    ...(reason === undefined ? {} : { reason: { field: reason as never, label: REASON } }),
    done() {
      reload();
      return done;
    },
  });
}
