import type { RunStory, Step } from '../api/types.ts';
import { link } from '../route.ts';
import { plain } from '../text/visible.ts';
import { duration } from '../text/time.ts';
import { Status, toneOf } from '../ui/status.tsx';
import { Text } from '../ui/text.tsx';

const WIDTH = 1000;
const BAR_MIN = 6;

/** Chart of when each step ran. */
export function Waterfall({ run }: { readonly run: RunStory }) {
  const { steps } = run;
  if (steps.length === 0) return <p class="soft pad">No step has ended yet.</p>;
  const start = Math.min(...steps.map(({ started_at }) => Date.parse(started_at)));
  const end = Math.max(start + 1, ...steps.map((step) => endOf(step)));
  const scale = WIDTH / (end - start);
  return (
    <ol class="waterfall">
      {steps
        .toSorted((a, b) => (a.started_at < b.started_at ? -1 : 1))
        .map((step) => {
          const from = (Date.parse(step.started_at) - start) * scale;
          const width = Math.max(BAR_MIN, (endOf(step) - Date.parse(step.started_at)) * scale);
          const x = Math.min(from, WIDTH - width);
          return (
            <li key={step.step_id}>
              <span class="fall-name">
                {step.job_id === null ? (
                  <Name step={step} />
                ) : (
                  <a href={link('jobs', { id: step.job_id })}>
                    <Name step={step} />
                  </a>
                )}
              </span>
              <svg viewBox={`0 0 ${WIDTH} 10`} preserveAspectRatio="none" aria-hidden="true">
                <rect
                  class={`fall ${toneOf(step.status)}`}
                  x={x}
                  y={0}
                  width={width}
                  height={10}
                  rx={3}
                />
              </svg>
              <span class="number">{duration(step.duration_ms)}</span>
              <Status value={step.status} />
            </li>
          );
        })}
    </ol>
  );
}

function Name({ step: { step, branch, kind } }: { readonly step: Step }) {
  const isDeep = branch !== '0' && branch !== '';
  return (
    <span class="line" title={plain(`${step} (${kind})`)}>
      <Text value={step} />
      {isDeep && (
        <span class="soft">
          {' '}
          <Text value={branch} />
        </span>
      )}
    </span>
  );
}

function endOf({ completed_at, started_at }: Step): number {
  return completed_at === null
    ? Math.max(Date.now(), Date.parse(started_at))
    : Date.parse(completed_at);
}
