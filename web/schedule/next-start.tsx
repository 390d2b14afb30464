import type { Schedule } from '../api/types.ts';
import { Text, Time } from '../ui/text.tsx';

interface NextStartProps {
  readonly row: Schedule;
  /** Leaves out the word "next", because the label contains it. */
  readonly isFact?: boolean;
}

/** Next start of a schedule, and the hold that delays it. */
export function NextStart({ row, isFact = false }: NextStartProps) {
  const { next_start_at: at, held_by: hold, status } = row;
  return (
    <>
      {at !== null && (
        <span class="next-start">
          {!isFact && 'next '}
          <Time at={at} />
        </span>
      )}
      {at === null && status === 'active' && <span class="next-start">next start not known</span>}
      {hold !== null && (
        <>
          {(at !== null || status === 'active') && ': '}
          <Text value={hold.message} />
        </>
      )}
    </>
  );
}
