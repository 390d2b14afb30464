/**
 * Draws the charts of the operator's pages from docs/operate/pictures/charts.json. Each value names the row
 * of docs/internals/benchmarks.md that it is from.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Chart {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly bars: readonly Bar[];
}

interface Bar {
  readonly label: string;
  readonly value: number;
  /** The number of the row in the tables of the benchmarks. */
  readonly row: string;
  readonly isDuctile?: boolean;
}

const folder = 'docs/operate/pictures';
const root = join(import.meta.dirname, '..');

const width = 720;
const labelWidth = 220;
const valueWidth = 70;
const rowHeight = 30;
const headHeight = 62;

export function renderCharts(): { path: string; text: string }[] {
  const charts = JSON.parse(readFileSync(join(root, folder, 'charts.json'), 'utf8')) as Chart[];
  const benchmarks = readFileSync(join(root, 'docs/internals/benchmarks.md'), 'utf8');
  const faults = charts.flatMap((chart) => findUnmeasured(chart, benchmarks));
  if (faults.length > 0) throw new Error(faults.join('\n'));
  return charts.map((chart) => ({ path: `${folder}/${chart.name}.svg`, text: drawChart(chart) }));
}

/** Returns the bars whose value isn't among the medians of their row. */
export function findUnmeasured({ name, bars }: Chart, benchmarks: string): string[] {
  const lines = benchmarks.split('\n');
  return bars
    .filter(({ row, value }) => {
      const rows = lines.filter((line) => line.startsWith(`| ${row} |`));
      const medians = rows.flatMap(
        (line) =>
          line
            .split('|')
            .at(-3)
            ?.match(/[\d.,]*\d/g) ?? [],
      );
      return !medians.includes(showValue(value));
    })
    .map(({ label, row, value }) => {
      const shown = showValue(value);
      return `${name}: ${label} has ${shown}, and row ${row} of the benchmarks doesn't`;
    });
}

export function drawChart({ title, description, bars }: Chart): string {
  const height = headHeight + bars.length * rowHeight + 10;
  const most = Math.max(...bars.map(({ value }) => value));
  const barsMax = width - labelWidth - valueWidth;
  const rows = bars.map(({ label, value, isDuctile }, index) => {
    const top = headHeight + index * rowHeight;
    const length = Math.max(2, Math.round((value / most) * barsMax));
    const kind = isDuctile === true ? 'ours' : 'theirs';
    const middle = top + 15;
    return [
      `  <text class="label" x="${labelWidth - 10}" y="${middle}">${escapeText(label)}</text>`,
      `  <rect class="${kind}" x="${labelWidth}" y="${top + 3}" width="${length}" height="20" rx="3"/>`,
      `  <text class="value" x="${labelWidth + length + 8}" y="${middle}">${showValue(value)}</text>`,
    ].join('\n');
  });
  const size = `viewBox="0 0 ${width} ${height}" width="${width}" height="${height}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} role="img">
  <title>${escapeText(title)}</title>
  <desc>${escapeText(description)}</desc>
  <style>
    text { font: 13px system-ui, sans-serif; fill: #24292f; dominant-baseline: middle }
    .title { font-weight: 600; font-size: 15px }
    .note { fill: #57606a }
    .label { text-anchor: end }
    .value { font-variant-numeric: tabular-nums }
    .ours { fill: #2563eb }
    .theirs { fill: #a3adba }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 }
      .note { fill: #9198a1 }
      .ours { fill: #60a5fa }
      .theirs { fill: #59636e }
    }
  </style>
  <text class="title" x="10" y="18">${escapeText(title)}</text>
  <text class="note" x="10" y="40">${escapeText(description)}</text>
${rows.join('\n')}
</svg>
`;
}

/** Writes a number as the benchmarks do. */
function showValue(value: number): string {
  return value.toLocaleString('en-US', { maximumFractionDigits: 3 });
}

function escapeText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
