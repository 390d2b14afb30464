import type { Attempt } from '../api/types.ts';
import { duration } from '../text/time.ts';

const phases = ['queue', 'spawn', 'run', 'settle'] as const;

/** Minimum width of a phase that took any time, in percent of the bar. */
const WIDTH_MIN = 1.2;

/** Bar with the time that an attempt spent in the queue, at its start, running, and being settled. */
export function PhaseBar({ attempt }: { readonly attempt: Attempt }) {
  const times = phases.map((phase) => ({ phase, ms: attempt[`${phase}_ms`] }));
  const total = times.reduce((sum, { ms }) => sum + (ms ?? 0), 0);
  const text = times.map(({ phase, ms }) => `${phase} ${duration(ms)}`).join(', ');
  const widths = times.map(({ ms }) =>
    ms === null || ms === 0 || total === 0 ? 0 : Math.max(WIDTH_MIN, (100 * ms) / total),
  );
  const scale =
    100 /
    Math.max(
      100,
      widths.reduce((sum, part) => sum + part, 0),
    );
  let left = 0;
  return (
    <div class="phases">
      <svg viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={text}>
        {widths.map((part, at) => {
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
