/**
 * Writes the reference pages and the charts that are generated. `--check` writes nothing and fails if a
 * file is out of date.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { catalogue } from '../src/base/error-catalogue.ts';
import { renderOnCall } from '../src/cli/skills.ts';
import { renderCharts } from './charts.ts';
import { renderCli } from './reference/cli.ts';
import { renderConfig } from './reference/config.ts';
import { renderFindings } from './reference/findings.ts';
import { renderHttp } from './reference/http.ts';
import { renderLimits } from './reference/limits.ts';
import { renderOperations } from './reference/operations.ts';
import { renderTables } from './reference/tables.ts';

export interface Page {
  /** Relative to the root. */
  readonly path: string;
  readonly text: string;
}

const root = dirname(import.meta.dirname);

if (import.meta.main) process.exitCode = await run(process.argv.includes('--check'));

export function renderPages(): Page[] {
  return [
    ...renderCharts(),
    { path: 'docs/operate/on-call.md', text: prepareOnCall(renderOnCall()) },
    { path: 'docs/reference/cli.md', text: renderCli() },
    { path: 'docs/reference/config.md', text: renderConfig() },
    { path: 'docs/reference/errors.md', text: renderErrors() },
    { path: 'docs/reference/findings.md', text: renderFindings() },
    { path: 'docs/reference/http.md', text: renderHttp() },
    { path: 'docs/reference/limits.md', text: renderLimits() },
    { path: 'docs/reference/operations.md', text: renderOperations() },
    { path: 'docs/reference/tables.md', text: renderTables() },
  ];
}

/** Lists the pages that are out of date. */
export async function findDrift(): Promise<Page[]> {
  const drifted: Page[] = [];
  for (const page of renderPages()) {
    const onDisk = await readFile(join(root, page.path), 'utf8').catch(() => '');
    if (onDisk !== page.text) drifted.push(page);
  }
  return drifted;
}

async function run(isCheck: boolean): Promise<number> {
  const drifted = await findDrift();
  for (const { path, text } of drifted) {
    if (isCheck) {
      console.error(`${path} is out of date: run tools/generate`);
      continue;
    }
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
    console.log(`wrote ${path}`);
  }
  return isCheck && drifted.length > 0 ? 1 : 0;
}

/** Adds what the test of the pages needs before it can run the commands. */
function prepareOnCall(text: string): string {
  return text.replace('```sh\n', '<!-- hidden: sh\nductile init --yes >/dev/null\n-->\n\n```sh\n');
}

function renderErrors(): string {
  const sections = Object.entries(catalogue)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([code, { status, exit, retryable, cause, hint }]) => {
      const retry = retryable ? 'yes' : 'no';
      const facts = `HTTP status ${status}, exit code ${exit}, retryable: ${retry}.`;
      return `## ${code}\n\n${facts}\n\n**Cause:** ${cause}\n\n**What to do:** ${hint}\n`;
    });
  return `# Errors

Every failure has one of these codes. The HTTP API returns a body of type \`application/problem+json\`
with \`error\`, \`code\`, \`hint\`, \`retryable\`, \`request_id\` and, if a location is known, \`place\`.
\`docs\` is the path of the code on this page; \`ductile docs errors#CODE\` prints its address.
The CLI prints the same and exits with the exit code. *Retryable* means that the same request can
succeed later without a change.

An error can have a more exact hint than the one on this page.

This page is written by \`tools/generate\` from \`src/base/error-catalogue.ts\`.

${sections.join('\n')}`;
}
