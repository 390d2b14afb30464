/** Draws Mermaid diagrams as SVG while the site is built, so that a page needs no script for them. */
import { createHash } from 'node:crypto';
import { registerHooks } from 'node:module';

type Render = (source: string, options: { padding: number; transparent: boolean }) => string;

const LIBRARY = '/beautiful-mermaid/dist/index.js';
const ALGORITHM = '"elk.algorithm": "layered",';
/**
 * Without the first, the layout breaks a cycle anywhere, and the start of a state diagram isn't at the
 * top. Without the second, edges between nested groups are drawn beside their nodes, because the
 * library expects their coordinates in another form.
 */
const OPTIONS =
  '"elk.layered.cycleBreaking.strategy": "DEPTH_FIRST", "org.eclipse.elk.json.edgeCoords": "PARENT",';
/** A wider flowchart is drawn from the top to the bottom, because a page has no room for it. */
const WIDTH_MAX = 800;
const LABEL_CHARS = 26;
/** Half of the width of a character in a label. */
const HALF_CHAR = 3;

export type DrawDiagram = (source: string) => string;

export async function loadDiagrams(): Promise<DrawDiagram> {
  registerHooks({
    load(url, context, next) {
      const loaded = next(url, context);
      if (!url.endsWith(LIBRARY)) return loaded;
      const text = new TextDecoder().decode(Buffer.from(loaded.source as Uint8Array));
      const source = text.replaceAll(ALGORITHM, `${ALGORITHM} ${OPTIONS}`);
      if (source === text) throw new Error(`${LIBRARY} has no layout options to change`);
      return { ...loaded, source };
    },
  });
  const { renderMermaidSVG } = await import('beautiful-mermaid');
  // A page is rendered for the browser and for the search.
  const drawn = new Map<string, string>();
  return (source) => {
    const known = drawn.get(source) ?? drawDiagram(renderMermaidSVG, source);
    drawn.set(source, known);
    return known;
  };
}

function drawDiagram(render: Render, source: string): string {
  const wrapped = wrapLabels(markCrosses(source));
  let svg = render(wrapped, { padding: 8, transparent: true });
  const turned = wrapped.replace(/^(\s*(?:flowchart|graph)) +(?:LR|RL)\b/, '$1 TB');
  if (widthOf(svg) > WIDTH_MAX && turned !== wrapped) {
    const other = render(turned, { padding: 8, transparent: true });
    if (widthOf(other) < widthOf(svg)) svg = other;
  }
  return toInline(widen(svg));
}

/** Makes room at both sides for labels that are longer than the distance of their participants. */
function widen(svg: string): string {
  const width = widthOf(svg);
  const labels = svg.matchAll(/<text x="([\d.]+)"[^>]* text-anchor="middle"[^>]*>([^<]+)</g);
  const halves = [...labels].map(([, x, label = '']) => [Number(x), label.length * HALF_CHAR]);
  const left = Math.min(0, ...halves.map(([x = 0, half = 0]) => x - half));
  const right = Math.max(width, ...halves.map(([x = 0, half = 0]) => x + half));
  return svg
    .replace(/viewBox="0 0 [\d.]+ /, `viewBox="${left} 0 ${right - left} `)
    .replace(/ width="[\d.]+"/, ` width="${right - left}"`);
}

function widthOf(svg: string): number {
  return Number(/^<svg[^>]* width="([\d.]+)"/.exec(svg)?.[1] ?? 0);
}

/** The library has no edges that end with a cross; their label gets the cross. */
function markCrosses(source: string): string {
  return source.replaceAll(/(-\.-|--)x(?:\|"?([^"|]*)"?\|)?/g, (_, line: string, label = '') => {
    const text = `✕ ${String(label)}`.trim();
    return `${line === '--' ? '-->' : '-.->'}|"${text}"|`;
  });
}

/** Breaks long labels into lines, as Mermaid does in the browser. */
function wrapLabels(source: string): string {
  // Its rows have room for one line.
  if (/^\s*sequenceDiagram/.test(source)) return source;
  return source
    .split('\n')
    .map((line) =>
      /^\s*subgraph\b/.test(line)
        ? line
        : line
            .replaceAll(/"([^"]+)"/g, (_, label: string) => `"${wrap(label)}"`)
            .replaceAll(
              /([[({])([^[\](){}"|]+)([\])}])/g,
              (_, open, label: string, close) => `${String(open)}${wrap(label)}${String(close)}`,
            )
            .replace(
              /^(\s*[^\s:]+ *--> *[^\s:]+ *: *)(.+)$/,
              (_, start: string, label: string) => `${start}${wrap(label)}`,
            ),
    )
    .join('\n');
}

function wrap(label: string): string {
  return label
    .split(/<br *\/?>/)
    .flatMap((line) => {
      const lines: string[] = [];
      for (const word of line.split(' ')) {
        const last = lines.at(-1);
        const joined = last === undefined ? word : `${last} ${word}`;
        if (last === undefined || joined.length > LABEL_CHARS) lines.push(word);
        else lines[lines.length - 1] = joined;
      }
      return lines;
    })
    .join('<br/>');
}

/**
 * Makes the picture part of the page: no style of its own, because the site's policy allows styles
 * only from its files, and ids that are unique on the page.
 */
function toInline(svg: string): string {
  const key = createHash('sha256').update(svg).digest('hex').slice(0, 8);
  const labels = [...svg.matchAll(/>([^<>\n]+)<\/(?:text|tspan)>/g)].map(([, label = '']) => label);
  const name = `Diagram: ${[...new Set(labels)].join(', ')}`.replaceAll('"', '&quot;');
  const inline = svg
    .replaceAll(/<style>[^]*?<\/style>\n?/g, '')
    .replaceAll(/ style="[^"]*"/g, '')
    .replaceAll(/ (?:xmlns|data-[\w-]+|class)="[^"]*"/g, '')
    .replaceAll(/\bid="([^"]+)"/g, `id="$1-${key}"`)
    .replaceAll(/url\(#([^)]+)\)/g, `url(#$1-${key})`)
    .replaceAll(/\d+\.\d{2,}/g, (number) => String(Math.round(Number(number) * 10) / 10))
    .replaceAll(/<!--[^]*?-->/g, '')
    .replaceAll(/\n\s*/g, '')
    .replace('<svg', `<svg role="img" aria-label="${name}"`);
  return `<div class="diagram" tabindex="0" v-pre>${inline}</div>\n`;
}
