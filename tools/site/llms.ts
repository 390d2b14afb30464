/** Lists the pages for language models (llms.txt). The service joins them to llms-full.txt. */
import { withoutComments, type DocsPage } from './pages.ts';
import { listPages } from './sidebar.ts';

const HEAD = `# Ductile

> Self-hosted automation that survives crashes: run scripts on a schedule, from a webhook or in a pipeline.

Every job is durable, retried and recorded in SQL. Ductile is one process with SQLite, or several with PostgreSQL.
The pages are Markdown. Their paths are relative to the address of the service.
`;

export function renderIndex(pages: readonly DocsPage[]): string {
  const sections = listPages(pages).map(([title, listed]) => {
    const lines = listed.map((page) => {
      const summary = readSummary(page.text);
      return `- [${page.title}](/docs/${page.source})${summary === '' ? '' : `: ${summary}`}`;
    });
    return `## ${title}\n\n${lines.join('\n')}\n`;
  });
  return [HEAD, ...sections].join('\n');
}

/** Returns the first sentence of the first paragraph, without links. */
function readSummary(text: string): string {
  const [, ...blocks] = withoutComments(text).split(/\n{2,}/);
  const paragraph = blocks.find((block) => /^[A-Z`*[]/.test(block)) ?? '';
  const line = paragraph.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll(/\s+/g, ' ');
  return /^.*?[.:](?= |$)/.exec(line)?.[0].replace(/:$/, '.') ?? '';
}
