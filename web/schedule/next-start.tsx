import type { Schedule } from '../api/types.ts';
import { Text, Time } from '../ui/text.tsx';

/** When a schedule really starts next, and what keeps it from starting when it is due. */
export function NextStart({ row }: { readonly row: Schedule }) {
  const { next_start_at: at, held_by: hold, status } = row;
  return (
    <>
      {at !== null && (
        <span class="next-start">
          next <Time at={at} />
        </span>
      )}
      {at === null && status === 'active' && <span class="next-start">no next start</span>}
      {hold !== null && (
        <>
          {(at !== null || status === 'active') && ': '}
          <Text value={hold.message} />
        </>
      )}
    </>
  );
}
