import type { Input } from '../api/types.ts';
import { Command } from './parts.tsx';
import { Text, Time } from './text.tsx';
import { useCall } from './use-call.ts';

interface WhyProps {
  readonly kind: NonNullable<Input<'why.explain'>['kind']>;
  readonly id: string;
}

/** Explanation why an object waits or wasn't processed, and of what happens next. */
export function Why({ kind, id }: WhyProps) {
  const { data } = useCall('why.explain', { kind, id }, ['job.', 'run.', 'breaker.', 'directive.']);
  if (data === undefined) return null;
  const { verdict, chain, moves_at, moves_by, commands } = data;
  return (
    <section class="why" aria-label="Why">
      <h2>Why</h2>
      <p class="verdict">
        <Text value={verdict} />
      </p>
      <ol>
        {chain.filter(isMore(verdict)).map(({ fact, at }) => (
          <li>
            <Text value={fact} />{' '}
            <span class="soft">{at !== undefined && at !== null && <Time at={at} />}</span>
          </li>
        ))}
      </ol>
      {moves_by !== null && (
        <p>
          {moves_at !== null && (
            <>
              <Time at={moves_at} />:{' '}
            </>
          )}
          <Text value={moves_by} />
        </p>
      )}
      {commands.map((command) => (
        <Command text={command} />
      ))}
    </section>
  );
}

/** Filters out facts that only repeat the verdict. */
function isMore(verdict: string): (one: { readonly fact: string }) => boolean {
  const normalized = verdict.toLowerCase().replace(/\.$/, '');
  return ({ fact }) => fact.toLowerCase() !== normalized;
}
