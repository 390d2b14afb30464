import { readFile, writeFile } from 'node:fs/promises';
import type { Machine } from './machine.ts';
import { columns, type Cells } from './report.ts';

const BEGIN = '<!-- bench:begin -->';
const END = '<!-- bench:end -->';

export interface Section {
  readonly title: string;
  readonly rows: readonly Cells[];
}

export interface Run {
  readonly machine: Machine;
  readonly date: string;
  readonly seed: number;
  readonly sections: readonly Section[];
}

export async function writePage(path: string, run: Run): Promise<void> {
  await writeFile(path, updatePage(await readFile(path, 'utf8'), run));
}

/**
 * Writes this run's figures into the page. Rows that weren't measured keep their figures and dates,
 * unless they come from another machine.
 */
export function updatePage(page: string, run: Run): string {
  const begin = page.indexOf(BEGIN);
  const end = page.indexOf(END);
  if (begin < 0 || end < begin) throw new Error(`the page lacks ${BEGIN} … ${END}`);
  const old = page.slice(begin, end);
  const same = run.machine.identity.every((text) => old.includes(`- ${text}\n`));
  const oldLines = same ? readLines(old) : new Map<string, Map<string, string>>();
  const body = [...describe(run), ...renderSections(run, oldLines)].join('\n');
  return `${page.slice(0, begin)}${BEGIN}\n\n${body}\n${page.slice(end)}`;
}

function describe({ machine, date, seed }: Run): string[] {
  return [
    ...machine.identity.map((text) => `- ${text}`),
    ...machine.notes.map((text) => `- ${text}`),
    `- last run ${date}, seed ${seed}`,
    '',
  ];
}

function renderSections(run: Run, oldLines: Map<string, Map<string, string>>): string[] {
  const lines = new Map(oldLines);
  for (const { title, rows } of run.sections) {
    const section = new Map(lines.get(title));
    for (const { key, cells } of rows) section.set(key, toMarkdown([...cells, run.date]));
    lines.set(title, section);
  }
  const head = [
    toMarkdown([...columns, 'date']),
    toMarkdown([...columns, 'date'].map(() => '---')),
  ];
  return [...lines].flatMap(([title, section]) => [
    `### ${title}`,
    '',
    ...head,
    ...[...section].toSorted(byRow).map(([, line]) => line),
    '',
  ]);
}

/** Reads the lines of each section of the page, by row and arm. */
function readLines(text: string): Map<string, Map<string, string>> {
  const sections = new Map<string, Map<string, string>>();
  let section = new Map<string, string>();
  for (const line of text.split('\n')) {
    if (line.startsWith('### ')) sections.set(line.slice(4), (section = new Map()));
    const [id, , arm] = line
      .split('|')
      .slice(1)
      .map((cell) => cell.trim());
    if (id !== undefined && arm !== undefined && /^\d/.test(id)) section.set(`${id} ${arm}`, line);
  }
  return sections;
}

function byRow([left]: [string, string], [right]: [string, string]): number {
  const [leftId = ''] = left.split(' ');
  const [rightId = ''] = right.split(' ');
  return leftId.localeCompare(rightId, 'en', { numeric: true });
}

function toMarkdown(cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll('|', '/').replaceAll('\n', ' ')).join(' | ')} |`;
}
