import type { RunStory } from '../api/types.ts';
import { confirmChange } from '../ui/confirm.tsx';
import { Json } from '../ui/json.tsx';
import { Text } from '../ui/text.tsx';
import { useCall } from '../ui/use-call.ts';

export interface DecisionRequest {
  readonly runId: string;
  /** The step's id in the pipeline, or the id of the row that waits. */
  readonly step: string;
  readonly isYes: boolean;
  readonly reload: () => void;
}

/** Opens the dialog for a decision, with the question, its data, and a field for a reason. */
export function confirmDecision({ runId, step, isYes, reload }: DecisionRequest): void {
  confirmChange({
    title: isYes ? 'Approve this step?' : 'Reject this step?',
    word: isYes ? 'Approve' : 'Reject',
    name: isYes ? 'run.approve' : 'run.reject',
    input: { id: runId, step },
    about: <DecisionQuestion runId={runId} step={step} />,
    reason: { field: 'why', label: 'Reason (optional, for the record)' },
    done() {
      reload();
      return isYes ? 'Step approved' : 'Step rejected';
    },
  });
}

function DecisionQuestion({ runId, step }: Pick<DecisionRequest, 'runId' | 'step'>) {
  const { data } = useCall('run.show', { id: runId });
  if (data === undefined) return null;
  const question = data.steps.find(
    (row) => row.kind === 'approve' && (row.step_id === step || row.step === step),
  );
  return (
    <div class="question">
      <p>
        <Text value={data.pipeline} /> ·{' '}
        <code>
          <Text value={question?.step ?? step} />
        </code>
      </p>
      <blockquote>
        <Text value={questionOf(question)} lines />
      </blockquote>
      <details>
        <summary>Payload of the run</summary>
        <Json value={data.payload} label="the payload of the run" />
      </details>
    </div>
  );
}

function questionOf(step: RunStory['steps'][number] | undefined): string {
  return step?.note ?? 'The pipeline has no message for this step.';
}
