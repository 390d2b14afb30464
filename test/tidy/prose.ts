/** Reads the sentences of Markdown, comments, messages and the dashboard. */
import { isNode, nameOf, type Node, parseSource, textOf, walk } from './ast.ts';
import type { TextFile } from './tree.ts';

export interface Prose {
  readonly path: string;
  /** Counted from 1. */
  readonly line: number;
  /** A line without markup; inline code is an empty pair of backticks. */
  readonly text: string;
}

/** The reference pages repeat texts of src. */
const GENERATED = /^docs\/(?:reference\/|operate\/on-call\.md$)/;
/** Properties and variables with a text that people read. */
const TEXT_KEY =
  /^(?:summary|hint|message|title|label|fix|meaning|description|detail|sentence|note|help)s?$/i;
const WORDS_MIN = 3;
/** Attributes with values that are not texts. */
const CLASS_KEYS = new Set(['class', 'className', 'd', 'style', 'viewBox']);

export function isMarkdown({ path }: TextFile): boolean {
  return path.endsWith('.md') && !GENERATED.test(path) && !path.startsWith('test/');
}

/** Returns paragraphs, list items, headings and cells of tables. */
export function readMarkdown({ path, text }: TextFile): Prose[] {
  const found: Prose[] = [];
  let open: { line: number; parts: string[] } | undefined;
  let isCode = false;
  let isHidden = false;
  const close = (): void => {
    if (open !== undefined)
      found.push({ path, line: open.line, text: clean(open.parts.join(' ')) });
    open = undefined;
  };
  for (const [index, line] of text.split('\n').entries()) {
    if (/^\s*(?:```|~~~)/.test(line)) isCode = !isCode;
    // Hidden steps of a page are commands and files, too.
    if (line.startsWith('<!-- hidden')) isHidden = true;
    if (isCode || isHidden || /^\s*(?:```|~~~|$)/.test(line)) {
      close();
    } else if (line.startsWith('|')) {
      close();
      const cells = line.replaceAll(/`[^`]*`/g, '``').split('|');
      found.push(...cells.map((cell) => ({ path, line: index + 1, text: clean(cell) })));
    } else {
      if (/^\s*(?:[-*+]|\d+\.|#+|>)\s/.test(line)) close();
      open ??= { line: index + 1, parts: [] };
      open.parts.push(line.replace(/^\s*(?:[-*+]|\d+\.|#+|>)\s+/, ''));
      if (line.startsWith('#')) close();
    }
    if (line === '-->') isHidden = false;
  }
  close();
  return found.filter(({ text: cleaned }) => /[a-z]/i.test(cleaned));
}

/** Returns each comment; line comments directly below each other are one. */
export function readComments(file: TextFile): Prose[] {
  const found: (Prose & Range & { readonly isLine: boolean })[] = [];
  for (const { start, end } of findComments(file)) {
    const raw = file.text.slice(start, end);
    const text = clean(raw.replaceAll(/^\s*(?:\/\*\*?|\*(?!\/)|\/\/)|\*\/$/gm, ' '));
    const isLine = raw.startsWith('//');
    const last = found.at(-1);
    if (last?.isLine && isLine && /^\n[ \t]*$/.test(file.text.slice(last.end, start))) {
      found.splice(-1, 1, { ...last, text: `${last.text} ${text}`, end });
    } else {
      found.push({ path: file.path, line: lineAt(file.text, start), text, start, end, isLine });
    }
  }
  return found
    .filter(({ text }) => /[a-z]{2}/i.test(text) && !/^(?:oxlint|eslint|@vite)/.test(text))
    .map(({ path, line, text }) => ({ path, line, text }));
}

/** Returns summaries, descriptions, hints, and messages of errors. */
export function readMessages(file: TextFile): Prose[] {
  const found = new Map<unknown, Prose>();
  const collect = (value: unknown): void => {
    walk(value, (node) => addText(found, file, node));
  };
  walk(parseSource(file), (node) => {
    if (isErrorCall(node) || isDescribeCall(node)) collect(node['arguments']);
    if (node['type'] === 'Property' && TEXT_KEY.test(nameOf(node['key']) ?? '')) {
      collect(node['value']);
    }
    if (node['type'] === 'VariableDeclarator' && TEXT_KEY.test(nameOf(node['id']) ?? '')) {
      collect(node['init']);
    }
  });
  return [...found.values()];
}

/** Returns the texts of the dashboard. */
export function readDashboard(file: TextFile): Prose[] {
  const found = new Map<unknown, Prose>();
  const hidden = new Set<unknown>();
  walk(parseSource(file), (node) => {
    if (node['type'] === 'JSXAttribute' && CLASS_KEYS.has(nameOf(node['name']) ?? '')) {
      walk(node['value'], (inner) => hidden.add(inner));
    }
    if (!hidden.has(node)) addText(found, file, node);
  });
  return [...found.values()];
}

/** Returns the titles of tests, and of the groups that they are in. */
export function readTitles(file: TextFile): Prose[] {
  const found: Prose[] = [];
  walk(parseSource(file), (node) => {
    if (node['type'] !== 'CallExpression' || !Array.isArray(node['arguments'])) return;
    const [first, second] = node['arguments'] as readonly unknown[];
    const title = textOf(first);
    if (title === undefined || second === undefined || !isNode(first)) return;
    if (!/^(?:test|describe)$/.test(calledName(node) ?? '')) return;
    const line = lineAt(file.text, Number(first['start']));
    found.push({ path: file.path, line, text: clean(title) });
  });
  return found;
}

/** Returns `test` for `test(…)`, `test.each(…)(…)` and `test.skipIf(…).each(…)(…)`. */
function calledName(node: Node): string | undefined {
  let called = node['callee'];
  while (isNode(called) && called['type'] !== 'Identifier') {
    called = called['object'] ?? called['callee'] ?? called['tag'];
  }
  return nameOf(called);
}

function addText(found: Map<unknown, Prose>, file: TextFile, node: Node): void {
  const raw = node['type'] === 'JSXText' ? String(node['value']) : textOf(node);
  if (raw === undefined || found.has(node)) return;
  const text = clean(raw);
  if (countWords(text) < WORDS_MIN || /[{}]|=>/.test(text)) return;
  found.set(node, { path: file.path, line: lineAt(file.text, Number(node['start'])), text });
}

function isErrorCall(node: Node): boolean {
  return node['type'] === 'NewExpression' && (nameOf(node['callee']) ?? '').endsWith('Error');
}

function isDescribeCall(node: Node): boolean {
  const { type, callee } = node;
  return type === 'CallExpression' && isNode(callee) && nameOf(callee['property']) === 'describe';
}

export function countWords(text: string): number {
  return text.split(/\s+/).filter((word) => /[\p{L}\d`]/u.test(word)).length;
}

/** Splits at full stops, question marks and exclamation marks. */
export function splitSentences(text: string): string[] {
  return text
    .split(/(?<=[.!?]["”’)*_]*)\s+(?=["“‘(*_`]*[\p{Lu}\d`])/u)
    .filter((part) => part !== '');
}

interface Range {
  readonly start: number;
  readonly end: number;
}

/** Looks outside of strings, templates and regular expressions. */
function findComments(file: TextFile): Range[] {
  const literals: Range[] = [];
  walk(parseSource(file), (node) => {
    const isText = ['Literal', 'TemplateElement', 'JSXText'].includes(String(node['type']));
    if (isText) literals.push({ start: Number(node['start']), end: Number(node['end']) });
  });
  literals.sort((a, b) => a.start - b.start);
  const found: Range[] = [];
  let at = 0;
  let next = 0;
  while (at < file.text.length) {
    while ((literals[next]?.end ?? Infinity) <= at) next += 1;
    const literal = literals[next];
    if (literal !== undefined && literal.start <= at) {
      at = literal.end;
      continue;
    }
    const opening = file.text.slice(at, at + 2);
    if (opening !== '//' && opening !== '/*') {
      at += 1;
      continue;
    }
    const [closing, length] = opening === '//' ? ['\n', 0] : ['*/', 2];
    const close = file.text.indexOf(closing, at + 2);
    const end = close === -1 ? file.text.length : close + length;
    found.push({ start: at, end });
    at = end;
  }
  return found;
}

function lineAt(text: string, index: number): number {
  return text.slice(0, index).split('\n').length;
}

function clean(text: string): string {
  return text
    .replaceAll(/(`+)[^]*?\1/g, '``')
    .replaceAll(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/\*\*|__/g, '')
    .replaceAll(/\s+/g, ' ')
    .trim();
}
