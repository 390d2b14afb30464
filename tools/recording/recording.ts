/** A terminal recording as an animated SVG, which needs no script and no player. */

/** One line that appears at a time in seconds. */
export interface RecordedLine {
  readonly at: number;
  readonly text: string;
  readonly kind: 'comment' | 'command' | 'output';
}

const COLUMNS = 100;
const LINE_HEIGHT = 19;
const CHARACTER_WIDTH = 7.83;
const MARGIN = 16;
const TITLE_HEIGHT = 28;
/** Time in seconds for reading the last line before the recording starts again. */
const REST = 5;

const escapes: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' };

/** Formats lines as an SVG that repeats. Readers who prefer no motion see all lines at once. */
export function formatRecording(title: string, lines: readonly RecordedLine[]): string {
  const duration = (lines.at(-1)?.at ?? 0) + REST;
  const width = Math.ceil(COLUMNS * CHARACTER_WIDTH + 2 * MARGIN);
  const height = TITLE_HEIGHT + lines.length * LINE_HEIGHT + 2 * MARGIN;
  const shown = lines.map(({ text, kind }, index) => {
    const y = TITLE_HEIGHT + MARGIN + (index + 0.75) * LINE_HEIGHT;
    return `<text class="${kind} l${index}" x="${MARGIN}" y="${y}">${escape(clip(text))}</text>`;
  });
  const name = escape(title);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}"
  role="img" aria-label="${name}">
<title>${name}</title>
<style>
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: pre; }
.command { fill: #e6edf3; font-weight: 600; }
.comment { fill: #8b949e; }
.output { fill: #b6c2cf; }
@media (prefers-reduced-motion: no-preference) {
${lines.map(({ at }, index) => animate(index, at / duration, duration)).join('\n')}
}
</style>
<rect width="${width}" height="${height}" rx="8" fill="#0d1117"/>
<circle cx="20" cy="18" r="5" fill="#f85149"/>
<circle cx="38" cy="18" r="5" fill="#d29922"/>
<circle cx="56" cy="18" r="5" fill="#3fb950"/>
${shown.join('\n')}
</svg>
`;
}

function animate(index: number, from: number, duration: number): string {
  const percent = (100 * from).toFixed(2);
  const frames = `@keyframes k${index} { 0%, ${percent}% { opacity: 0 } ${percent}1%, 100% { opacity: 1 } }`;
  return `${frames}\n.l${index} { animation: k${index} ${duration.toFixed(1)}s infinite; }`;
}

/** Cuts a line at the edge of the terminal and marks the cut. */
function clip(line: string): string {
  return line.length <= COLUMNS ? line : `${line.slice(0, COLUMNS - 1)}…`;
}

function escape(text: string): string {
  return text.replaceAll(/[&<>]/g, (character) => escapes[character] ?? character);
}
