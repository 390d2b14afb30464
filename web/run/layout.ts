/** Step to draw. Steps are drawn from left to right, the arms of a block below each other. */
export interface DrawnStep {
  readonly id: string;
  readonly kind: string;
  readonly does: string;
  readonly notes: readonly string[];
  readonly arms: readonly { readonly label: string | null; readonly steps: readonly DrawnStep[] }[];
}

export interface Box {
  readonly step: DrawnStep;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  /** True if its arms are drawn inside it, below its name. */
  readonly isBlock: boolean;
}

export interface Label {
  readonly text: string;
  readonly x: number;
  readonly y: number;
  readonly maxWidth: number;
}

export interface Picture {
  readonly width: number;
  readonly height: number;
  readonly boxes: readonly Box[];
  readonly labels: readonly Label[];
  /** Path data of the SVG. */
  readonly arrows: readonly string[];
}

const BOX_WIDTH = 156;
const BOX_HEIGHT = 52;
const GAP = 26;
const ROW = 14;
const PAD = 14;
const TITLE = 40;
const LABEL = 20;

export function layOut(steps: readonly DrawnStep[]): Picture {
  const { width, height, paint } = layOutChain(steps);
  const drawing: Drawing = { boxes: [], labels: [], arrows: [] };
  paint(drawing, 1, 1);
  return { width: width + 2, height: height + 2, ...drawing };
}

interface Drawing {
  readonly boxes: Box[];
  readonly labels: Label[];
  readonly arrows: string[];
}

interface Part {
  readonly width: number;
  readonly height: number;
  readonly paint: (drawing: Drawing, x: number, y: number) => void;
}

/** Puts steps beside each other, on one center line. */
function layOutChain(steps: readonly DrawnStep[]): Part {
  const parts = steps.map(layOutStep);
  const width =
    parts.reduce((sum, part) => sum + part.width, 0) + GAP * Math.max(0, parts.length - 1);
  const height = Math.max(0, ...parts.map((part) => part.height));
  return {
    width,
    height,
    paint(drawing, x, y) {
      let left = x;
      const middle = y + height / 2;
      for (const [at, part] of parts.entries()) {
        if (at > 0) drawing.arrows.push(`M${left - GAP} ${middle}H${left}`);
        part.paint(drawing, left, middle - part.height / 2);
        left += part.width + GAP;
      }
    },
  };
}

function layOutStep(step: DrawnStep): Part {
  return step.arms.length === 0 ? layOutSingle(step) : layOutBlock(step);
}

function layOutSingle(step: DrawnStep): Part {
  return {
    width: BOX_WIDTH,
    height: BOX_HEIGHT,
    paint: ({ boxes }, x, y) =>
      void boxes.push({ step, x, y, width: BOX_WIDTH, height: BOX_HEIGHT, isBlock: false }),
  };
}

function layOutBlock(step: DrawnStep): Part {
  const arms = step.arms.map(({ label, steps }) => ({
    text: isOwnName(label, steps) ? null : label,
    part: layOutChain(steps),
  }));
  const heights = arms.map(({ text, part }) => part.height + (text === null ? 0 : LABEL));
  const width = Math.max(BOX_WIDTH, ...arms.map(({ part }) => part.width + 2 * PAD));
  const height =
    TITLE + heights.reduce((sum, armHeight) => sum + armHeight, 0) + ROW * (arms.length - 1) + PAD;
  return {
    width,
    height,
    paint(drawing, x, y) {
      drawing.boxes.push({ step, x, y, width, height, isBlock: true });
      let top = y + TITLE;
      for (const [at, { text, part }] of arms.entries()) {
        if (text !== null)
          drawing.labels.push({ text, x: x + PAD, y: top + 12, maxWidth: width - 2 * PAD });
        part.paint(drawing, x + PAD, top + (text === null ? 0 : LABEL));
        top += (heights[at] ?? 0) + ROW;
      }
    },
  };
}

/** True if an arm needs no label, because its only step has the same name. */
function isOwnName(label: string | null, steps: readonly DrawnStep[]): boolean {
  return label === null || (steps.length === 1 && steps[0]?.id.split('.').at(-1) === label);
}
