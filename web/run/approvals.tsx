import type { RunStory } from '../api/types.ts';
import { Card } from '../ui/parts.tsx';
import { Status } from '../ui/status.tsx';
import { Text, Time } from '../ui/text.tsx';

/** Decisions about approval steps, with their actor, time and reason. */
export function Approvals({ run: { approvals } }: { readonly run: RunStory }) {
  if (approvals.length === 0) return null;
  return (
    <Card title="Decisions">
      <ul class="plain-list" aria-label="Decisions">
        {approvals.map(({ step, step_id, approved, by, reason, at }) => (
          <li key={step_id}>
            <Status
              value={approved ? 'accepted' : 'refused'}
              says={approved ? 'approved' : 'rejected'}
            />{' '}
            <code>
              <Text value={step} />
            </code>{' '}
            by <Text value={by} /> <Time at={at} />
            {reason !== null && (
              <p class="soft">
                <Text value={reason} lines />
              </p>
            )}
          </li>
        ))}
      </ul>
    </Card>
  );
}
