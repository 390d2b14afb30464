import type { RunStory } from '../api/types.ts';
import { Text, Time } from '../ui/text.tsx';
import { confirmDecision } from './confirm-decision.tsx';

interface DecisionsProps {
  readonly run: RunStory;
  readonly reload: () => void;
}

/** Open questions of a run, each with its buttons. */
export function Decisions({ run, reload }: DecisionsProps) {
  const questions = new Map(
    run.steps.flatMap((step) => (step.kind === 'approve' ? [[step.step_id, step] as const] : [])),
  );
  const open = run.waiting.filter(({ step_id }) => step_id !== null && questions.has(step_id));
  if (open.length === 0) return null;
  return (
    <section class="decisions" aria-label="Waits for a decision">
      {open.map(({ step_id, step, why, until }) => {
        const decide = (isYes: boolean): void =>
          confirmDecision({ runId: run.run_id, step: step_id ?? '', isYes, reload });
        return (
          <div key={step_id}>
            <p>
              <b>
                <Text value={step ?? ''} />
              </b>{' '}
              <Text value={questions.get(step_id ?? '')?.note ?? why} lines />
              {until !== null && (
                <span class="soft">
                  {' '}
                  · ends <Time at={until} />
                </span>
              )}
            </p>
            <span class="acts">
              <button type="button" onClick={() => decide(false)}>
                Reject
              </button>
              <button type="button" class="main" onClick={() => decide(true)}>
                Approve
              </button>
            </span>
          </div>
        );
      })}
    </section>
  );
}
