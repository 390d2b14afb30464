import type { JsonOutput } from '../operation/define.ts';
import type { Printer, Row } from '../cli/print.ts';
import { showCell } from '../cli/print.ts';
import { rowsOf } from '../cli/view-parts.ts';

/** Jobs under those that caused them; rows come with each job before what followed from it. */
export function showTree(output: JsonOutput, printer: Printer): void {
  const rows = rowsOf(output['jobs']);
  const byCause = Map.groupBy(rows, ({ cause_job_id }): unknown => cause_job_id);
  const known = new Set(rows.map(({ job_id }) => job_id));
  const tops = rows.filter(({ cause_job_id }) => cause_job_id === null || !known.has(cause_job_id));
  const lines: Row[] = [];
  const walk = (row: Row, lead: string, branch: string): void => {
    const name = `${lead}${branch}${showCell(row['plugin'])} ${showCell(row['command'])}`;
    const isAsked = row['job_id'] === output['job_id'] ? '←' : '';
    lines.push({ ...row, name, asked: isAsked, retry: row['retry_of'] === null ? '' : 'again' });
    const children = byCause.get(row['job_id']) ?? [];
    const below = branch === '' ? lead : `${lead}${branch === '└─ ' ? '   ' : '│  '}`;
    for (const [at, child] of children.entries()) {
      walk(child, below, at === children.length - 1 ? '└─ ' : '├─ ');
    }
  };
  for (const top of tops) walk(top, '', '');
  printer.table(lines, {
    columns: [
      ['JOB', 'name'],
      ['STEP', 'step_id'],
      ['STATUS', 'status'],
      ['ID', 'job_id'],
      ['', 'asked'],
      ['RETRY', 'retry', 'detail'],
      ['RUN', 'run_id', 'detail'],
      ['CREATED', 'created_at'],
      ['ERROR', 'last_error'],
    ],
    empty: 'There are no such jobs.',
  });
  if (output['complete'] === false) printer.line('There are more; the tree is too large to show.');
}
