import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { isObject } from '../../src/base/json.ts';
import { dataLimits } from '../../src/base/limits/data.ts';
import { engineLimits } from '../../src/base/limits/engine.ts';
import { httpLimits } from '../../src/base/limits/http.ts';
import { ledgerLimits } from '../../src/base/limits/ledger.ts';
import { pipelineLimits } from '../../src/base/limits/pipeline.ts';
import { pluginLimits } from '../../src/base/limits/plugin.ts';
import { webhookLimits } from '../../src/base/limits/webhook.ts';
import { formatByteSize, formatDuration } from '../../src/base/quantity.ts';

interface Group {
  readonly file: string;
  readonly title: string;
  readonly limits: object;
}

/** In the order in which users ask for them. */
const groups: readonly Group[] = [
  { file: 'data', title: 'Data', limits: dataLimits },
  { file: 'engine', title: 'Jobs, schedules and findings', limits: engineLimits },
  { file: 'plugin', title: 'Plugins, packages and configuration', limits: pluginLimits },
  { file: 'pipeline', title: 'Pipelines', limits: pipelineLimits },
  { file: 'webhook', title: 'Webhooks', limits: webhookLimits },
  { file: 'http', title: 'HTTP, command line and agents', limits: httpLimits },
  { file: 'ledger', title: 'Database, retention and tenants', limits: ledgerLimits },
];

const root = resolve(import.meta.dirname, '../..');

/** Renders every named limit with the comment above it. */
export function renderLimits(): string {
  return `# Limits

Every fixed limit and default of Ductile has a name in the source. The tables show its value and what
it limits. A setting in the last column changes it; limits without a setting are fixed.

Names that end in \`Max\` or \`Min\` are bounds. The others are defaults, intervals and sizes. You limit
the memory and CPU time of plugins with [resource limits](../plugins/limits.md). For the responses to
requests that are too large, see the
[security model](../security/model.md#limits-of-the-http-surface).

${groups.map(renderGroup).join('\n')}
This page is written by \`tools/generate\` from \`src/base/limits\`.
`;
}

function renderGroup({ file, title, limits }: Group): string {
  const comments = readComments(readFileSync(join(root, `src/base/limits/${file}.ts`), 'utf8'));
  const rows = listValues(limits, '').map(([name, value]) => {
    const comment = comments.get(name) ?? comments.get(name.split('.')[0] ?? '');
    if (comment === undefined) throw new Error(`the limit ${name} needs a comment above it`);
    const [meaning = '', setting = ''] = comment.split(/\s*Setting: /);
    return `| \`${name}\` | ${showLimit(name, value)} | ${trimEnd(meaning)} | ${trimEnd(setting)} |`;
  });
  return `## ${title}

| limit | value | what it limits | setting |
| --- | --- | --- | --- |
${rows.join('\n')}
`;
}

/** Returns the comment of each limit; that of a member of an object is below \`object.member\`. */
export function readComments(source: string): Map<string, string> {
  const found = new Map<string, string>();
  const pattern = /\/\*\*((?:(?!\*\/)[^])*)\*\/\s*(\w+):( \{$)?|^ {2}(\}),$/gm;
  let outer = '';
  for (const [, comment, name, opens, closes] of source.matchAll(pattern)) {
    if (closes !== undefined) {
      outer = '';
    } else if (comment !== undefined && name !== undefined) {
      const text = comment
        .replaceAll(/^\s*\* ?/gm, ' ')
        .replaceAll(/\s+/g, ' ')
        .trim();
      found.set(`${outer}${name}`, text);
      if (opens !== undefined) outer = `${name}.`;
    }
  }
  return found;
}

function listValues(value: unknown, path: string): [name: string, value: number][] {
  if (typeof value === 'number') return [[path, value]];
  if (!isObject(value)) throw new Error(`the limit ${path} is no number`);
  return Object.entries(value).flatMap(([key, inner]) =>
    listValues(inner, path === '' ? key : `${path}.${key}`),
  );
}

/** The unit of a limit is part of its name. */
export function showLimit(name: string, value: number): string {
  if (/Ms(?:Max|Min)?(?:\.|$)/.test(name)) return formatDuration(value);
  if (/Bytes/.test(name)) return formatByteSize(value);
  if (name.endsWith('Part')) return `${value * 100} %`;
  if (name.endsWith('Seconds')) return `${value}s`;
  return value.toLocaleString('en-US');
}

function trimEnd(text: string): string {
  return text.replace(/\.$/, '');
}
