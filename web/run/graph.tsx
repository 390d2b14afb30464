import { useMemo } from 'preact/hooks';
import { plain } from '../text/shown.ts';
import { link } from '../route.ts';
import { toneOf } from '../ui/status.tsx';
import { layOut, type Box, type DrawnStep } from './layout.ts';
import type { StepState } from './states.ts';

/** How far it is made smaller to be seen as a whole; beyond that it is moved under the reader's hand. */
const SMALLEST = 0.75;

interface GraphProps {
  readonly steps: readonly DrawnStep[];
  readonly states: ReadonlyMap<string, StepState>;
}

/** The pipeline with what has become of each step. */
export function Graph({ steps, states }: GraphProps) {
  const { width, height, boxes, labels, ways } = useMemo(() => layOut(steps), [steps]);
  return (
    <div class="graph" tabIndex={0} role="region" aria-label="The pipeline as a picture">
      <svg
        viewBox={`0 0 ${width} ${height}`}
        width={width}
        style={{ minWidth: `${width * SMALLEST}px` }}
      >
        {boxes
          .filter(({ isBlock }) => isBlock)
          .map((box) => (
            <Knot key={box.step.id} box={box} state={states.get(box.step.id)} />
          ))}
        {ways.map((way) => (
          <path class="way" d={way} />
        ))}
        {labels.map(({ text, x, y }) => (
          <text class="arm" x={x} y={y}>
            {cut(text, 40)}
          </text>
        ))}
        {boxes
          .filter(({ isBlock }) => !isBlock)
          .map((box) => (
            <Knot key={box.step.id} box={box} state={states.get(box.step.id)} />
          ))}
      </svg>
    </div>
  );
}

const NAME_CHARS = 19;
const DOES_CHARS = 20;

function Knot({ box, state }: { readonly box: Box; readonly state: StepState | undefined }) {
  const { step, x, y, width, height, isBlock } = box;
  const tone = state === undefined ? 'idle' : toneOf(state.status);
  const says = state === undefined ? 'not begun' : tell(state);
  const body = (
    <g class={`knot ${tone} ${isBlock ? 'block' : ''}`}>
      <title>{plain([step.id, step.does, ...step.notes, says].join('\n'))}</title>
      <rect x={x} y={y} width={width} height={height} rx={9} />
      {!isBlock && <rect class="edge" x={x} y={y + 9} width={3} height={height - 18} rx={1.5} />}
      <text class="knot-name" x={x + 14} y={y + 21}>
        {cut(step.id.split('.').at(-1) ?? step.id, NAME_CHARS)}
      </text>
      <text
        class="knot-does"
        x={isBlock ? x + width - 14 : x + 14}
        y={isBlock ? y + 21 : y + 39}
        text-anchor={isBlock ? 'end' : 'start'}
      >
        {cut(
          isBlock ? `${step.does} · ${says}` : state === undefined ? step.does : says,
          isBlock ? 60 : DOES_CHARS,
        )}
      </text>
    </g>
  );
  const jobId = state?.jobId ?? null;
  if (jobId === null) return body;
  return (
    <a href={link('jobs', { id: jobId })} aria-label={plain(`${step.id}: ${says}`)}>
      {body}
    </a>
  );
}

function tell({ status, count, ended }: StepState): string {
  const word = status.replaceAll('_', ' ');
  return count === 1 ? word : `${ended} of ${count} ended, ${word}`;
}

function cut(text: string, most: number): string {
  const chars = Array.from(plain(text));
  return chars.length <= most ? chars.join('') : `${chars.slice(0, most - 1).join('')}…`;
}
