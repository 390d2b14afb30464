import type { Run } from '../api/types.ts';
import { Status } from '../ui/status.tsx';
import { Text, Time } from '../ui/text.tsx';

/** Fields of a run that its state depends on; some lists lack `waiting_for`. */
type RunState = Pick<Run, 'status'> & Partial<Pick<Run, 'waiting_for'>>;

/** Status of a run. A waiting run isn't shown as running. */
export function RunStatus({
  run: { status, waiting_for: waits = null },
}: {
  readonly run: RunState;
}) {
  if (waits === null) return <Status value={status} />;
  return <Status value={waits.kind === 'approval' ? 'approval' : 'waiting'} says="waiting" />;
}

interface WaitsForProps {
  readonly run: RunState;
  /** Leaves out the question of an approval. */
  readonly isShort?: boolean;
}

/** Describes what a run waits for, and until when. */
export function WaitsFor({ run: { waiting_for: waits = null }, isShort = false }: WaitsForProps) {
  if (waits === null) return null;
  return (
    <span class="waits">
      Waits for{' '}
      <Text
        value={describeWait(
          isShort && waits.kind === 'approval' ? { ...waits, message: null } : waits,
        )}
      />
      {waits.until !== null && (
        <span class="soft">
          {' '}
          · {waits.kind === 'time' ? 'continues' : 'ends'} <Time at={waits.until} />
        </span>
      )}
    </span>
  );
}

type Wait = NonNullable<Run['waiting_for']>;

function describeWait({ kind, step, message }: Wait): string {
  const of = step === null ? '' : ` of ${step}`;
  const more = message === null || message === '' ? '' : message;
  if (kind === 'approval') return `approval${of}${more === '' ? '' : `: ${more}`}`;
  if (kind === 'signal') return `the signal ${more === '' ? step : more}`;
  if (kind === 'time') return step === null ? 'its start time' : `the time${of}`;
  return more === '' ? 'its turn' : `other runs with the concurrency key ${more}`;
}
