import { askDecision } from '../run/decide.tsx';
import { ask } from '../ui/ask.tsx';
import type { Remedy } from './remedy.ts';

/** Shows the plan of a remedy, and carries it out when the reader agrees. */
export function askRemedy({ name, input, title, word, done }: Remedy, reload: () => void): void {
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
    done() {
      reload();
      return done;
    },
  });
}
