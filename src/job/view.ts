import { formatByteSize } from '../base/quantity.ts';
import { toVisibleText } from '../base/text.ts';
import { showCell, type Printer, type ResultRow } from '../cli/print.ts';
import { rowOf, rowsOf, showSection, withRealState } from '../cli/view-parts.ts';
import type { JsonOutput, Table } from '../operation/define.ts';
import { foldAttempts } from '../operation/result/compact-result.ts';

export function showJobDetail(output: JsonOutput, printer: Printer): void {
  const all = rowsOf(output['attempts']);
  const isLong = all.length > ATTEMPTS_LISTED && !printer.isVerbose;
  const attempts = (isLong ? foldAttempts(all).map(withRange) : all).map(withSummary);
  printer.pairs([
    ['job', output['job_id']],
    ['plugin', `${showCell(output['plugin'])} ${showCell(output['command'])}`],
    ['status', withRealState(output)['status']],
    ['reason', output['reason']],
    ['attempt', output['attempt']],
    ['failures', `${showCell(output['retry_count'])} of ${showCell(output['max_attempts'])}`],
    ['by', `${showCell(output['submitted_by'])} (${showCell(output['actor'])})`],
    ['cause', describeCause(output['cause'])],
    ['parent', describeJob(output['parent'])],
    ['retry of', output['retry_of']],
    ['retried as', output['retried_as']],
    ['run', output['run_id']],
    ['step', output['step_id']],
    ['dedupe key', output['dedupe_key']],
    ['dependency', output['dependency']],
    ['waiting', output['waiting']],
    ['created', output['created_at']],
    ['started', output['started_at']],
    ['completed', output['completed_at']],
    ['next retry', output['next_retry_at']],
    ['cancel requested', output['cancel_requested_at']],
    ['error', output['last_error']],
    ['payload', output['payload']],
    ['result', output['result']],
  ]);
  showSection(printer, 'Attempts', attempts, [
    ['#', 'attempt'],
    ...attemptColumns,
    ['PROCESS', 'process_id', 'detail'],
    ['ERROR', 'last_error'],
  ]);
  if (printer.isVerbose) {
    for (const { attempt, stderr } of attempts)
      printer.block(`stderr of attempt ${showCell(attempt)}`, stderr);
  }
  showSection(printer, 'Signals', output['signals'], [
    ['ID', 'signal_id'],
    ['TYPE', 'type'],
    ['OCCURRED', 'occurred_at'],
    ['DATA', 'data', 'detail'],
  ]);
  showSection(printer, 'Children', output['children'], [
    ['ID', 'job_id'],
    ['PLUGIN', 'plugin'],
    ['COMMAND', 'command'],
    ['STATUS', 'status'],
    ['CREATED', 'created_at'],
  ]);
}

export function showLogs(output: JsonOutput, printer: Printer): void {
  const columns: Table['columns'] = [
    ['JOB', 'job_id'],
    ['PLUGIN', 'plugin'],
    ['COMMAND', 'command'],
    ['#', 'attempt'],
    ...attemptColumns,
    ['ERROR', 'last_error'],
  ];
  const rows = rowsOf(output['logs']).map(withSummary);
  printer.table(rows, { columns, empty: 'There are no such attempts.' });
  if (!printer.isVerbose) return;
  for (const { log_id, result, stderr } of rows) {
    printer.title(`attempt ${showCell(log_id)}`);
    printer.block('result', typeof result === 'string' ? result : JSON.stringify(result));
    printer.block('stderr', stderr);
  }
}

export function showCancel(output: JsonOutput, printer: Printer): void {
  const { job_id, status } = output;
  const name = `job ${showCell(job_id)}`;
  if (status === 'cancelled') printer.line(`${name} is cancelled`);
  else if (status === 'running') printer.line(`${name} is being stopped`);
  else printer.line(`${name} is already ${showCell(status)}; nothing to cancel`);
}

export function showRetry(output: JsonOutput, printer: Printer): void {
  const { job_id, retry_of, status, plugin, command } = output;
  const name = `${showCell(plugin)} ${showCell(command)}`;
  printer.pairs([
    ['job', job_id],
    ['retry of', retry_of],
    ['plugin', name],
    ['status', status],
    ['directive', output['directive_id']],
  ]);
}

const attemptColumns: Table['columns'] = [
  ['STATUS', 'status'],
  ['CAUSE', 'cause'],
  ['EXIT', 'exit'],
  ['QUEUE MS', 'queue_ms'],
  ['SPAWN MS', 'spawn_ms'],
  ['RUN MS', 'run_ms'],
  ['CPU MS', 'cpu_ms'],
  ['MEMORY', 'memory'],
  ['COMPLETED', 'completed_at'],
];

/** Above this, equal consecutive attempts share one line; `--verbose` lists all. */
const ATTEMPTS_LISTED = 10;

function withRange(row: ResultRow): ResultRow {
  const { folded, folded_from_attempt: first, attempt } = row;
  if (folded === undefined) return row;
  return { ...row, cause: folded, attempt: `${showCell(first)}–${showCell(attempt)}` };
}

/** Adds readable columns for the memory peak and the exit code. */
function withSummary(row: ResultRow): ResultRow {
  const { memory_peak_bytes: peak, command_exit_code: own, exit_code: exit, signal } = row;
  const memory = typeof peak === 'number' ? formatByteSize(peak) : null;
  return { ...row, memory, exit: own ?? exit ?? signal };
}

function describeCause(cause: unknown): string | null {
  if (cause === null || cause === undefined) return null;
  const { type, source, signal_id } = rowOf(cause);
  return `${showCell(type)} from ${showCell(source)} (signal ${showCell(signal_id)})`;
}

function describeJob(job: unknown): string | null {
  if (job === null || job === undefined) return null;
  const { job_id, plugin, command, status } = rowOf(job);
  return `${showCell(job_id)} (${showCell(plugin)} ${showCell(command)}, ${showCell(status)})`;
}

/** Prints jobs below the job that caused them. Each row comes before its followers. */
export function showTree(output: JsonOutput, printer: Printer): void {
  const rows = rowsOf(output['jobs']);
  const byCause = Map.groupBy(rows, ({ cause_job_id }): unknown => cause_job_id);
  const known = new Set(rows.map(({ job_id }) => job_id));
  const tops = rows.filter(({ cause_job_id }) => cause_job_id === null || !known.has(cause_job_id));
  const lines: ResultRow[] = [];
  const walk = (row: ResultRow, lead: string, branch: string): void => {
    const name = `${lead}${branch}${showCell(row['plugin'])} ${showCell(row['command'])}`;
    const isAsked = row['job_id'] === output['job_id'] ? '←' : '';
    lines.push({ ...row, name, asked: isAsked, retry: row['retry_of'] === null ? '' : 'yes' });
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
  if (output['complete'] === false)
    printer.line('There are more jobs; the tree is too large to show.');
}

/** Prints an attempt on one line, and below it the log entries of its response and its stderr. */
export function printAttempt(row: ResultRow, printer: Printer): void {
  const { completed_at, plugin, command, job_id, attempt, status, cause, last_error, stderr } = row;
  const why = cause === 'ok' ? '' : ` (${showCell(cause)})`;
  const words = [completed_at, plugin, command, job_id, `#${showCell(attempt)}`].map(showCell);
  const error = typeof last_error === 'string' ? `  ${showCell(last_error)}` : '';
  printer.line(`${words.join(' ')} ${printer.tint(showCell(status))}${why}${error}`);
  for (const { level, message } of rowsOf(row['logs'])) {
    printer.line(`  ${printer.tint(showCell(level))} ${showCell(message)}`);
  }
  if (typeof stderr !== 'string' || stderr.trim() === '') return;
  for (const line of stderr.trimEnd().split('\n')) printer.line(`  | ${toVisibleText(line)}`);
}

export function printCoreLine(row: ResultRow, printer: Printer): void {
  const fields = Object.entries(rowOf(row['fields'])).map(
    ([name, value]) => ` ${showCell(name)}=${showCell(value)}`,
  );
  const { timestamp, level, component, message } = row;
  const head = `${showCell(timestamp)} ${printer.tint(showCell(level))} ${showCell(component)}`;
  printer.line(`${head}  ${showCell(message)}${fields.join('')}`);
}

export function showCoreLog(output: JsonOutput, printer: Printer): void {
  for (const row of rowsOf(output['logs'])) printCoreLine(row, printer);
}
