import { useMemo } from 'preact/hooks';
import { plain } from '../text/visible.ts';
import { link } from '../route.ts';
import { toneOf } from '../ui/status.tsx';
import { fit, fitFirst, type Ruler } from './fit.ts';
import { layOut, type Box, type DrawnStep } from './layout.ts';
import type { StepState } from './states.ts';

/** Smallest scale of the picture; a larger picture is scrolled. */
const SCALE_MIN = 0.75;

interface GraphProps {
  readonly steps: readonly DrawnStep[];
  readonly states: ReadonlyMap<string, StepState>;
}

/** Picture of a pipeline, with the state of each step. */
export function Graph({ steps, states }: GraphProps) {
  const { width, height, boxes, labels, arrows } = useMemo(() => layOut(steps), [steps]);
  const rulers = useMemo(makeRulers, []);
  return (
    <div class="graph" tabIndex={0} role="region" aria-label="Diagram of the pipeline">
      <svg
        viewBox={`0 0 ${width} ${height}`}
        width={width}
        style={{ minWidth: `${width * SCALE_MIN}px` }}
      >
        {boxes
          .filter(({ isBlock }) => isBlock)
          .map((box) => (
            <StepBox key={box.step.id} box={box} state={states.get(box.step.id)} rulers={rulers} />
          ))}
        {arrows.map((arrow) => (
          <path class="way" d={arrow} />
        ))}
        {labels.map(({ text, x, y, maxWidth }) => (
          <text class="arm" x={x} y={y}>
            {fit(plain(text), maxWidth, rulers.small)}
          </text>
        ))}
        {boxes
          .filter(({ isBlock }) => !isBlock)
          .map((box) => (
            <StepBox key={box.step.id} box={box} state={states.get(box.step.id)} rulers={rulers} />
          ))}
      </svg>
    </div>
  );
}

interface Rulers {
  readonly name: Ruler;
  readonly small: Ruler;
}

/** Measures text in the fonts of `run.css`. */
function makeRulers(): Rulers {
  const pen = document.createElement('canvas').getContext('2d');
  const family = getComputedStyle(document.body).fontFamily;
  const of =
    (font: string): Ruler =>
    (text) => {
      if (pen === null) return text.length * LETTER_WIDTH;
      pen.font = `${font} ${family}`;
      return pen.measureText(text).width;
    };
  return { name: of('580 13px'), small: of('12px') };
}

const LETTER_WIDTH = 9;
/** Distance between the edge of a box and its text. */
const EDGE = 14;
const BETWEEN = 12;

interface StepBoxProps {
  readonly box: Box;
  readonly state: StepState | undefined;
  readonly rulers: Rulers;
}

function StepBox({ box, state, rulers }: StepBoxProps) {
  const { step, x, y, width, height, isBlock } = box;
  const tone = state === undefined ? 'idle' : toneOf(state.status);
  const statusText = state === undefined ? 'not started' : describeState(state);
  const inner = width - 2 * EDGE;
  const name = fit(plain(step.id.split('.').at(-1) ?? step.id), inner, rulers.name);
  const does = plain(step.does);
  const body = (
    <g class={`knot ${tone} ${isBlock ? 'block' : ''}`}>
      <title>{plain([step.id, step.does, ...step.notes, statusText].join('\n'))}</title>
      <rect x={x} y={y} width={width} height={height} rx={9} />
      {!isBlock && <rect class="edge" x={x} y={y + 9} width={3} height={height - 18} rx={1.5} />}
      <text class="knot-name" x={x + EDGE} y={y + 21}>
        {name}
      </text>
      {isBlock ? (
        <text class="knot-does" x={x + width - EDGE} y={y + 21} text-anchor="end">
          {fitFirst(
            [`${does} · ${statusText}`, statusText],
            inner - rulers.name(name) - BETWEEN,
            rulers.small,
          )}
        </text>
      ) : (
        <text class="knot-does" x={x + EDGE} y={y + 39}>
          {fit(state === undefined ? does : statusText, inner, rulers.small)}
        </text>
      )}
    </g>
  );
  const jobId = state?.jobId ?? null;
  if (jobId === null) return body;
  return (
    <a href={link('jobs', { id: jobId })} aria-label={plain(`${step.id}: ${statusText}`)}>
      {body}
    </a>
  );
}

function describeState({ status, count, ended }: StepState): string {
  const word = status.replaceAll('_', ' ');
  return count === 1 ? word : `${ended} of ${count} ended, ${word}`;
}
