import { isUnlabeledArm, outlineSteps, type DrawnStep, type DrawnArm } from './draw.ts';
import type { Graph } from './graph.ts';

/** Sizes in pixels. `CHAR` is the approximate width of a monospaced letter at 12 pixels. */
const CHAR = 7.3;
const LINE = 16;
const PAD = 10;
const GAP = 26;
/**
 * The distances from the head of a block to its arms, and from the longest arm to the end of the
 * block.
 */
const FORK = 24;
const JOIN = 14;
const BEND = FORK / 2 - 2;
const MARGIN = 16;
const SHOWN_CHARS = 44;

/** A part of the picture with a known size. Its input is at the middle of the top. */
interface Piece {
  readonly width: number;
  readonly height: number;
  readonly paint: (x: number, y: number) => string;
}

/** Draws a self-contained picture that loads nothing and follows the reader's color scheme. */
export function drawSvg(graph: Graph, title: string): string {
  const { width, height, paint } = column([
    pill(title),
    ...outlineSteps(graph).map(pieceOf),
    dot(),
  ]);
  const w = Math.ceil(width + 2 * MARGIN);
  const h = Math.ceil(height + 2 * MARGIN);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}" viewBox="0 0 ${w} ${h}" role="img">`,
    `<title>${escape(title)}</title>`,
    `<style>${STYLE}</style>`,
    ARROW,
    `<rect class="paper" width="${w}" height="${h}"/>`,
    paint(MARGIN, MARGIN),
    '</svg>',
    '',
  ].join('\n');
}

const LIGHT =
  '--ink:#1c2733;--soft:#5b6b7b;--line:#7d8c9b;--paper:#fff;--task:#e7f1ff;--rim:#8fb4e3;' +
  '--ask:#fff3d6;--asked:#d9ae4a;--block:#f6f8fa;--split:#4f9d76;--each:#8468c4;--case:#c07f3a';
const DARK =
  '--ink:#e6edf3;--soft:#9fb0c0;--line:#74859a;--paper:#11161c;--task:#17304f;--rim:#3d6aa3;' +
  '--ask:#3f3212;--asked:#a17f2f;--block:#171e26;--split:#3f8562;--each:#7159ad;--case:#a36c31';

const STYLE = [
  `svg{${LIGHT}}`,
  `@media(prefers-color-scheme:dark){svg{${DARK}}}`,
  'text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:var(--ink)}',
  '.soft{fill:var(--soft)}.strong{font-weight:600}.middle{text-anchor:middle}',
  '.paper{fill:var(--paper)}.pill{fill:var(--ink)}.on{fill:var(--paper)}',
  '.task{fill:var(--task);stroke:var(--rim)}.approve,.wait{fill:var(--ask);stroke:var(--asked)}',
  '.split,.foreach,.switch,.group{fill:var(--block);stroke:var(--line)}',
  '.split{stroke:var(--split)}.foreach{stroke:var(--each)}.switch{stroke:var(--case)}',
  '.flow,.way{stroke:var(--line);fill:none}.flow{marker-end:url(#arrow)}',
  '.maybe{stroke-dasharray:4 3}.head{fill:var(--line)}',
].join('');

const ARROW =
  '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">' +
  '<path class="head" d="M0 0L8 4L0 8z"/></marker></defs>';

function pieceOf(step: DrawnStep): Piece {
  const texts = [
    { text: step.id, style: 'strong' },
    { text: step.does, style: '' },
    ...step.notes.map((text) => ({ text, style: 'soft' })),
  ];
  const head = {
    width: Math.max(...texts.map(({ text }) => widthOf(text))) + 2 * PAD,
    height: texts.length * LINE + PAD,
  };
  const inner = step.arms.length === 0 ? undefined : fork(step);
  const width = Math.max(head.width, (inner?.width ?? 0) + 2 * PAD);
  const height = head.height + (inner?.height ?? 0);
  return {
    width,
    height,
    paint: (x, y) =>
      [
        `<g><title>${escape(texts.map(({ text }) => text).join('\n'))}</title>`,
        // A second sheet behind the box marks a loop.
        ...(step.kind === 'foreach' ? [box(step.kind, x + 5, y + 5, width, height)] : []),
        box(step.kind, x, y, width, height),
        ...texts.map(({ text, style }, line) => {
          const bottom = y + (line + 1) * LINE;
          if (inner === undefined) return write(text, x + PAD, bottom, style);
          return write(text, x + width / 2, bottom, `${style} middle`);
        }),
        '</g>',
        ...(inner === undefined
          ? []
          : [inner.paint(x + (width - inner.width) / 2, y + head.height)]),
      ].join('\n'),
  };
}

function box(style: string, x: number, y: number, width: number, height: number): string {
  return `<rect class="${style}" x="${n(x)}" y="${n(y)}" width="${n(width)}" height="${n(height)}" rx="6"/>`;
}

function armPiece(arm: DrawnArm): Piece {
  const { label: name, steps } = arm;
  const pieces = steps.map(pieceOf);
  if (pieces.length === 0) return label(isUnlabeledArm(arm) ? 'nothing' : `${name ?? ''}: nothing`);
  return column(isUnlabeledArm(arm) ? pieces : [label(name ?? ''), ...pieces]);
}

/** Stacks pieces vertically, with arrows between them. */
function column(pieces: readonly Piece[]): Piece {
  const width = Math.max(...pieces.map((piece) => piece.width));
  const height = pieces.reduce((sum, piece) => sum + piece.height, 0) + GAP * (pieces.length - 1);
  return {
    width,
    height,
    paint(x, y) {
      const middle = x + width / 2;
      let top = y;
      const parts = pieces.map((piece, index) => {
        const painted = piece.paint(middle - piece.width / 2, top);
        const bottom = top + piece.height;
        top = bottom + GAP;
        if (index === pieces.length - 1) return painted;
        return `${painted}\n<path class="flow" d="M${n(middle)} ${n(bottom)}V${n(top)}"/>`;
      });
      return parts.join('\n');
    },
  };
}

/** Puts the arms of a block side by side, with lines that fork and join. */
function fork({ arms, kind }: DrawnStep): Piece {
  const pieces = arms.map(armPiece);
  const width = pieces.reduce((sum, piece) => sum + piece.width, 0) + GAP * (pieces.length - 1);
  const tallest = Math.max(...pieces.map((piece) => piece.height));
  const height = FORK + tallest + JOIN;
  // Dashed, because a switch takes only one arm.
  const style = kind === 'switch' ? ' maybe' : '';
  return {
    width,
    height,
    paint(x, y) {
      const middle = n(x + width / 2);
      const bottom = n(y + height);
      const meeting = n(y + height - JOIN / 2);
      let left = x;
      const parts = pieces.flatMap((piece) => {
        const center = n(left + piece.width / 2);
        const top = y + FORK;
        const painted = piece.paint(left, top);
        left += piece.width + GAP;
        return [
          `<path class="flow${style}" d="M${middle} ${n(y)}V${n(y + BEND)}H${center}V${n(top)}"/>`,
          painted,
          `<path class="way${style}" d="M${center} ${n(top + piece.height)}V${meeting}H${middle}V${bottom}"/>`,
        ];
      });
      return parts.join('\n');
    },
  };
}

function label(text: string): Piece {
  const width = widthOf(text);
  const paint = (x: number, y: number): string =>
    write(text, x + width / 2, y + LINE - 2, 'soft middle');
  return { width, height: LINE + 4, paint };
}

/** The start of the pipeline. */
function pill(text: string): Piece {
  const width = widthOf(text) + 3 * PAD;
  const height = LINE + PAD;
  return {
    width,
    height,
    paint: (x, y) =>
      `<rect class="pill" x="${n(x)}" y="${n(y)}" width="${n(width)}" height="${height}" rx="${height / 2}"/>\n` +
      write(text, x + width / 2, y + LINE + 1, 'strong on middle'),
  };
}

/** The end of the pipeline. */
function dot(): Piece {
  const r = 6;
  const paint = (x: number, y: number): string =>
    `<circle class="pill" cx="${n(x + r)}" cy="${n(y + r)}" r="${r}"><title>end</title></circle>`;
  return { width: 2 * r, height: 2 * r, paint };
}

function write(text: string, x: number, y: number, style: string): string {
  const named = style.trim();
  return `<text${named === '' ? '' : ` class="${named}"`} x="${n(x)}" y="${n(y)}">${escape(shorten(text))}</text>`;
}

function widthOf(text: string): number {
  return Array.from(shorten(text)).length * CHAR;
}

function shorten(text: string): string {
  const chars = Array.from(text);
  return chars.length <= SHOWN_CHARS ? text : `${chars.slice(0, SHOWN_CHARS - 1).join('')}…`;
}

function n(value: number): string {
  return String(Math.round(value * 10) / 10);
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
};

/** Escapes text for XML, and replaces characters that XML doesn't allow. */
function escape(text: string): string {
  return text
    .replaceAll(/[&<>"]/g, (char) => entities[char] ?? char)
    .replaceAll(/[^\t\n\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/gu, '\u{FFFD}');
}
