import type { Refusal } from '../api/client.ts';
import { Text } from '../ui/text.tsx';

/** Notice that the token can't read everything, so that an empty list isn't read as "nothing is wrong". */
export function IncompleteNotice({ errors }: { readonly errors: readonly Refusal[] }) {
  const reasons = errors
    // The shell reports once that the service doesn't respond.
    .filter(({ status }) => status !== 0)
    .map(({ hint, message }) => hint ?? message);
  if (reasons.length === 0) return null;
  return (
    <p class="soft pad">
      Not everything that may need attention can be shown.{' '}
      <Text value={[...new Set(reasons)].join(' ')} />
    </p>
  );
}
