/** Where the steps of a pipeline are drawn: from left to right, the arms of a block under each other. */
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
  /** Its arms are drawn within it, below its name. */
  readonly isBlock: boolean;
}

export interface Label {
  readonly text: string;
  readonly x: number;
  readonly y: number;
  /** How wide it may be. */
  readonly room: number;
}

export interface Picture {
  readonly width: number;
  readonly height: number;
  readonly boxes: readonly Box[];
  readonly labels: readonly Label[];
  /** As the path of an SVG. */
  readonly ways: readonly string[];
}

const WIDE = 156;
const HIGH = 52;
const GAP = 26;
const ROW = 14;
const PAD = 14;
const TITLE = 40;
const LABEL = 20;

export function layOut(steps: readonly DrawnStep[]): Picture {
  const { width, height, paint } = chain(steps);
  const made: Made = { boxes: [], labels: [], ways: [] };
  paint(made, 1, 1);
  return { width: width + 2, height: height + 2, ...made };
}

interface Made {
  readonly boxes: Box[];
  readonly labels: Label[];
  readonly ways: string[];
}

interface Part {
  readonly width: number;
  readonly height: number;
  readonly paint: (made: Made, x: number, y: number) => void;
}

/** One after the other, all at the same middle. */
function chain(steps: readonly DrawnStep[]): Part {
  const parts = steps.map(partOf);
  const width =
    parts.reduce((sum, part) => sum + part.width, 0) + GAP * Math.max(0, parts.length - 1);
  const height = Math.max(0, ...parts.map((part) => part.height));
  return {
    width,
    height,
    paint(made, x, y) {
      let left = x;
      const middle = y + height / 2;
      for (const [at, part] of parts.entries()) {
        if (at > 0) made.ways.push(`M${left - GAP} ${middle}H${left}`);
        part.paint(made, left, middle - part.height / 2);
        left += part.width + GAP;
      }
    },
  };
}

function partOf(step: DrawnStep): Part {
  return step.arms.length === 0 ? single(step) : block(step);
}

function single(step: DrawnStep): Part {
  return {
    width: WIDE,
    height: HIGH,
    paint: ({ boxes }, x, y) =>
      void boxes.push({ step, x, y, width: WIDE, height: HIGH, isBlock: false }),
  };
}

function block(step: DrawnStep): Part {
  const arms = step.arms.map(({ label, steps }) => ({
    text: isOwnName(label, steps) ? null : label,
    part: chain(steps),
  }));
  const highs = arms.map(({ text, part }) => part.height + (text === null ? 0 : LABEL));
  const width = Math.max(WIDE, ...arms.map(({ part }) => part.width + 2 * PAD));
  const height = TITLE + highs.reduce((sum, high) => sum + high, 0) + ROW * (arms.length - 1) + PAD;
  return {
    width,
    height,
    paint(made, x, y) {
      made.boxes.push({ step, x, y, width, height, isBlock: true });
      let top = y + TITLE;
      for (const [at, { text, part }] of arms.entries()) {
        if (text !== null)
          made.labels.push({ text, x: x + PAD, y: top + 12, room: width - 2 * PAD });
        part.paint(made, x + PAD, top + (text === null ? 0 : LABEL));
        top += (highs[at] ?? 0) + ROW;
      }
    },
  };
}

/** An arm of one step that is called like it needs no name of its own. */
function isOwnName(label: string | null, steps: readonly DrawnStep[]): boolean {
  return label === null || (steps.length === 1 && steps[0]?.id.split('.').at(-1) === label);
}
