import type { Attempt } from '../api/types.ts';
import { duration } from '../text/time.ts';

const phases = ['queue', 'spawn', 'run', 'settle'] as const;

/** The least that is seen of a phase that took any time at all, in hundredths of the bar. */
const LEAST = 1.2;

/** Where the time of an attempt went: waiting, starting its process, running it, writing its end. */
export function PhaseBar({ attempt }: { readonly attempt: Attempt }) {
  const times = phases.map((phase) => ({ phase, ms: attempt[`${phase}_ms`] }));
  const total = times.reduce((sum, { ms }) => sum + (ms ?? 0), 0);
  const text = times.map(({ phase, ms }) => `${phase} ${duration(ms)}`).join(', ');
  const wide = times.map(({ ms }) =>
    ms === null || ms === 0 || total === 0 ? 0 : Math.max(LEAST, (100 * ms) / total),
  );
  const scale =
    100 /
    Math.max(
      100,
      wide.reduce((sum, part) => sum + part, 0),
    );
  let left = 0;
  return (
    <div class="phases">
      <svg viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={text}>
        {wide.map((part, at) => {
          const x = left;
          left += part * scale;
          return <rect class={`phase-${phases[at]}`} x={x} y="0" width={part * scale} height="8" />;
        })}
      </svg>
      <ul>
        {times.map(({ phase, ms }) => (
          <li>
            <i class={`swatch phase-${phase}`} aria-hidden="true" />
            {phase} <b>{duration(ms)}</b>
          </li>
        ))}
      </ul>
    </div>
  );
}
