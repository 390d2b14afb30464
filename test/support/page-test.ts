/** Runs a documentation page from top to bottom and compares what it shows. */
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { openPageSession, type PageSession } from './page-session.ts';
import { parseSteps, type ConsoleEntry, type PageStep } from './page-steps.ts';
import { isShown } from './shown-output.ts';

const root = resolve(import.meta.dirname, '../..');

/** With this variable, outputs that differ are written into the page instead of failing the test. */
const WRITING = 'DUCTILE_WRITE_OUTPUTS';

/** Programs of other makers that pages use. A page is skipped if this machine lacks one of its programs. */
const tools = ['curl', 'git', 'jq', 'openssl', 'python3', 'sqlite3'] as const;

/** Defines one test for each page below a folder that has commands. */
export function testPages(pattern: string): void {
  for (const page of globSync(pattern, { cwd: root }).toSorted()) {
    const steps = parseSteps(readFileSync(join(root, page), 'utf8'));
    if (steps.every(({ kind }) => kind === 'file')) continue;
    const missing = tools.filter((tool) => !isInstalled(tool) && isUsed(tool, steps));
    const needs = missing.length === 0 ? '' : ` (needs ${missing.join(' and ')})`;
    test.skipIf(needs !== '')(`${page} does what it shows${needs}`, () => runPage(page));
  }
}

/** A module of Python, such as `sqlite3`, isn't a program. */
function isUsed(tool: string, steps: readonly PageStep[]): boolean {
  const pattern = new RegExp(String.raw`(?<!import [\w, ]*)\b${tool}\b(?!\.)`);
  return steps.some((step) => pattern.test(JSON.stringify(step)));
}

function isInstalled(tool: string): boolean {
  const folders = (process.env['PATH'] ?? '').split(':');
  return folders.some((folder) => existsSync(join(folder, tool)));
}

async function runPage(page: string): Promise<void> {
  const path = join(root, page);
  const text = readFileSync(path, 'utf8');
  const session = await openPageSession();
  const changes: [shown: string, printed: string][] = [];
  try {
    for (const step of parseSteps(text)) {
      try {
        changes.push(...(await takeStep(session, step)));
      } catch (error) {
        const cause = error instanceof Error ? error.message : String(error);
        throw new Error(`${page}:${step.line}: ${cause}`, { cause: error });
      }
    }
  } finally {
    await session.close();
  }
  if (changes.length === 0) return;
  let changed = text;
  for (const [shown, printed] of changes) changed = changed.replace(shown, () => printed);
  writeFileSync(path, changed);
}

/** Returns outputs that have to be replaced in the page, which is none unless it is being written. */
async function takeStep(session: PageSession, step: PageStep): Promise<[string, string][]> {
  if (step.kind === 'console') return compareOutputs(session, step.entries);
  if (step.kind === 'commands') await session.run(step.text);
  else if (step.kind === 'service') await session.start(step.text);
  else await session.write(step.path, step.text, step.appends);
  return [];
}

async function compareOutputs(
  session: PageSession,
  entries: readonly ConsoleEntry[],
): Promise<[string, string][]> {
  const changes: [string, string][] = [];
  for (const { command, output } of entries) {
    const printed = await readOutput(session, command, output);
    if (isShown(output, printed, Date.now())) continue;
    const before = `$ ${command}\n`;
    const isElided = /^…$/m.test(output);
    if (process.env[WRITING] === undefined || isElided) {
      expect(before + printed).toBe(before + output);
    }
    changes.push([before + output, `${(before + printed).trimEnd()}\n`]);
  }
  return changes;
}

/** Commands that only look. Work that is still running may change what they see. */
const looking =
  /^(?:cat|grep|head|ls|tail|ductile (?:\w+ (?:list|show|logs|status|tree|health)|why|status|doctor|logs)) /;
const PATIENCE_MS = 30_000;

/** Returns what a command prints. Looks again, as a reader would, until it is what the page shows. */
async function readOutput(session: PageSession, command: string, output: string): Promise<string> {
  const endMs = performance.now() + (looking.test(`${command} `) ? PATIENCE_MS : 0);
  for (;;) {
    const printed = await session.show(command);
    const isOver = process.env[WRITING] !== undefined || performance.now() > endMs;
    if (isOver || isShown(output, printed, Date.now())) return printed;
    await sleep(100);
  }
}
