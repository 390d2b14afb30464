/** What a documentation page asks its reader to do, in order. */

/** Steps of a page. `line` is where its text begins, counted from 1. */
export type PageStep =
  | { readonly kind: 'commands'; readonly text: string; readonly line: number }
  | { readonly kind: 'console'; readonly entries: readonly ConsoleEntry[]; readonly line: number }
  | { readonly kind: 'service'; readonly text: string; readonly line: number }
  | {
      readonly kind: 'file';
      readonly path: string;
      readonly appends: boolean;
      readonly text: string;
      readonly line: number;
    };

/** One command of a `console` block with the output that the page shows. */
export interface ConsoleEntry {
  readonly command: string;
  readonly output: string;
}

interface Block {
  readonly language: string;
  readonly text: string;
  readonly line: number;
}

/** Comment that says what a block is for: `<!-- file: a.yaml -->`. */
interface Mark {
  readonly name: string;
  readonly value: string;
}

const fence = /^( *)(`{3,})(\w*)[^`]*$/;
const mark = /^ *<!-- (file|append|skip|start)(?:: (.*?))? -->$/;
const hidden = /^ *<!-- hidden(?:: sh|-file: (\S+))$/;

/** Commands that would change the machine of whoever runs the tests. Their blocks have to be skipped. */
const reaching = new RegExp(
  [
    String.raw`\b(?:sudo|useradd|systemctl|loginctl|docker|podman|apt-get|apt)\b`,
    String.raw`\bnpm (?:install|ci|test)\b`,
    String.raw`[ >"]/(?:etc|opt|usr|var)/`,
  ].join('|'),
);

/** Reads the steps of a page. Blocks in other languages than sh and console are steps if they name a file. */
export function parseSteps(page: string): PageStep[] {
  const lines = page.split('\n');
  const steps: PageStep[] = [];
  let pending: Mark | undefined;
  for (let index = 0; index < lines.length; index += 1) {
    const line = lines[index] ?? '';
    const [, name, value = ''] = mark.exec(line) ?? [];
    const concealed = hidden.exec(line);
    const opening = fence.exec(line);
    if (name !== undefined) {
      pending = { name, value };
    } else if (concealed !== null) {
      const end = lines.indexOf('-->', index);
      if (end < 0) throw new Error(`the comment in line ${index + 1} has no end`);
      const text = `${lines.slice(index + 1, end).join('\n')}\n`;
      steps.push(makeHiddenStep(concealed[1], text, index + 2));
      index = end;
    } else if (opening !== null) {
      const [, indent = '', marks = '', language = ''] = opening;
      const end = lines.indexOf(indent + marks, index + 1);
      if (end < 0) throw new Error(`the block in line ${index + 1} has no end`);
      const body = lines.slice(index + 1, end).map((one) => one.replace(indent, ''));
      const block = { language, text: body.map((one) => `${one}\n`).join(''), line: index + 2 };
      const step = makeStep(block, pending);
      if (step !== undefined) steps.push(step);
      pending = undefined;
      index = end;
    } else if (line.trim() !== '' && pending !== undefined) {
      throw new Error(`line ${index + 1}: no block follows the comment "${pending.name}"`);
    }
  }
  for (const step of steps) checkReach(step);
  return steps;
}

function checkReach(step: PageStep): void {
  const lines = step.kind === 'console' ? step.entries.map(({ command }) => command) : [step.text];
  const [found] = reaching.exec(step.kind === 'file' ? step.path : lines.join('\n')) ?? [];
  if (found !== undefined)
    throw new Error(
      `line ${step.line}: skip the block, because "${found.trim()}" reaches beyond the test`,
    );
}

function makeHiddenStep(path: string | undefined, text: string, line: number): PageStep {
  if (path === undefined) return { kind: 'commands', text, line };
  return { kind: 'file', path, appends: false, text, line };
}

function makeStep({ language, text, line }: Block, given: Mark | undefined): PageStep | undefined {
  switch (given?.name) {
    case 'skip':
      if (given.value === '') throw new Error(`line ${line}: say why the block is skipped`);
      return undefined;
    case 'file':
    case 'append':
      return { kind: 'file', path: given.value, appends: given.name === 'append', text, line };
    case 'start':
      return { kind: 'service', text, line };
    default:
      if (language === 'sh') return { kind: 'commands', text, line };
      if (language === 'console') return { kind: 'console', entries: parseConsole(text), line };
      return undefined;
  }
}

/** Splits a console block at its `$ ` lines; a `\` at the end of a command continues it. */
export function parseConsole(text: string): ConsoleEntry[] {
  const entries: { command: string; output: string }[] = [];
  for (const line of text.replace(/\n$/, '').split('\n')) {
    const last = entries.at(-1);
    if (line.startsWith('$ ')) {
      entries.push({ command: line.slice(2), output: '' });
    } else if (last === undefined) {
      throw new Error(`a console block begins with "$ ", not with "${line}"`);
    } else if (last.output === '' && last.command.endsWith('\\')) {
      last.command += `\n${line.replace(/^> /, '')}`;
    } else {
      last.output += `${line}\n`;
    }
  }
  return entries;
}
