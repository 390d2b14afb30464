import { confirmDecision } from '../run/confirm-decision.tsx';
import { confirmChange } from '../ui/confirm.tsx';
import type { Remedy } from './remedy.ts';

const REASON = 'Reason (optional, for the record)';

/** Shows the plan of a remedy, and runs it after the user has confirmed. */
export function confirmRemedy(remedy: Remedy, reload: () => void): void {
  const { name, input, title, word, done, reason } = remedy;
  if (name === 'run.approve' || name === 'run.reject') {
    const { id, step } = input;
    confirmDecision({
      runId: String(id),
      step: String(step),
      isYes: name === 'run.approve',
      reload,
    });
    return;
  }
  confirmChange({
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
