import type { RunStory } from '../api/types.ts';
import { ask } from '../ui/ask.tsx';
import { Text, Time } from '../ui/text.tsx';

interface DecisionsProps {
  readonly run: RunStory;
  readonly reload: () => void;
}

/** Steps that wait for a person: this one can decide. */
export function Decisions({ run, reload }: DecisionsProps) {
  const kinds = new Map(run.steps.map(({ step_id, kind }) => [step_id, kind]));
  const open = run.waiting.filter(
    ({ step_id }) => step_id !== null && kinds.get(step_id) === 'approve',
  );
  if (open.length === 0) return null;
  const decide = (stepId: string, step: string, isYes: boolean): void =>
    ask({
      title: isYes ? `Approve ${step}?` : `Reject ${step}?`,
      word: isYes ? 'Approve' : 'Reject',
      name: isYes ? 'run.approve' : 'run.reject',
      input: { id: run.run_id, step: stepId },
      done() {
        reload();
        return isYes ? 'Approved; the run goes on.' : 'Rejected.';
      },
    });
  return (
    <section class="decisions" aria-label="Waits for a decision">
      {open.map(({ step_id, step, why, until }) => (
        <div key={step_id}>
          <p>
            <b>
              <Text value={step ?? ''} />
            </b>{' '}
            <Text value={why} />
            {until !== null && (
              <span class="soft">
                {' '}
                · ends <Time at={until} />
              </span>
            )}
          </p>
          <span class="acts">
            <button type="button" onClick={() => decide(step_id ?? '', step ?? '', false)}>
              Reject
            </button>
            <button
              type="button"
              class="main"
              onClick={() => decide(step_id ?? '', step ?? '', true)}
            >
              Approve
            </button>
          </span>
        </div>
      ))}
    </section>
  );
}
