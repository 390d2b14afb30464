/** How answers look to people where a table of their rows would not do. */
import { formatDuration } from '../config/duration.ts';
import type { JsonOutput, Table } from '../operations/define.ts';
import type { Printer, Row } from './print.ts';
import { showCell } from './print.ts';

export type View = (output: JsonOutput, printer: Printer) => void;

export const views: Readonly<Record<string, View>> = {
  'system.status': showStatus,
  'system.check': showCheck,
  'plugin.list': showPlugins,
  'plugin.run': showRun,
  'job.inspect': showJob,
  'job.logs': showLogs,
  'job.cancel': showCancel,
};

/** For answers without a view of their own. */
export function showPlain(output: JsonOutput, printer: Printer): void {
  printer.pairs(Object.entries(output).map(([name, value]) => [name.replaceAll('_', ' '), value]));
}

export function showPlan(output: JsonOutput, printer: Printer): void {
  for (const sentence of listOf(output['plan'])) printer.line(showCell(sentence));
  printer.line('Nothing was done.');
}

function showStatus(output: JsonOutput, printer: Printer): void {
  const queue = rowOf(output['queue']);
  const plugins = rowOf(output['plugins']);
  const problems = rowsOf(plugins['problems']);
  const waiting = `${showCell(queue['ready'])} ready, ${showCell(queue['delayed'])} delayed`;
  const slots = `${rowsOf(output['running']).length} of ${showCell(output['slots'])} slots here`;
  printer.pairs([
    ['state', output['state']],
    ['detail', output['detail']],
    ['process', output['process_id']],
    ['up', formatDuration(Number(output['uptime_seconds']) * 1000)],
    ['ledger', output['ledger']],
    ['spawner', output['spawner']],
    ['queue', `${waiting}, ${showCell(queue['running'])} running (${slots})`],
    ['waiting since', queue['oldest_ready_at']],
    ['plugins', `${showCell(plugins['loaded'])} loaded, ${problems.length} with problems`],
  ]);
  showProblems(problems, printer);
  if (printer.isVerbose) showProblems(rowsOf(plugins['warnings']), printer);
  section(printer, 'Processes', output['processes'], [
    ['ID', 'process_id'],
    ['HOST', 'host'],
    ['PID', 'pid'],
    ['VERSION', 'version'],
    ['SLOTS', 'slots'],
    ['SPAWNER', 'spawner'],
    ['STARTED', 'started_at'],
    ['HEARTBEAT', 'last_heartbeat_at'],
  ]);
  section(printer, 'Running here', output['running'], [
    ['JOB', 'job_id'],
    ['PLUGIN', 'plugin'],
    ['COMMAND', 'command'],
  ]);
}

function showCheck(output: JsonOutput, printer: Printer): void {
  const problems = listOf(output['problems']);
  if (problems.length === 0) return printer.line('The ledger is sound.');
  printer.line(`The ledger has ${problems.length} problems:`);
  for (const problem of problems) printer.line(`  ${showCell(problem)}`);
}

function showPlugins(output: JsonOutput, printer: Printer): void {
  const rows = rowsOf(output['plugins']).map((plugin) => ({
    ...plugin,
    commands: Object.entries(rowOf(plugin['types'])).map(
      ([name, type]) => `${name} (${showCell(type)})`,
    ),
  }));
  printer.table(rows, {
    columns: [
      ['NAME', 'name'],
      ['VERSION', 'version'],
      ['USES', 'uses', 'detail'],
      ['PARALLEL', 'parallelism'],
      ['COMMANDS', 'commands'],
      ['DESCRIPTION', 'description'],
    ],
    empty: 'There are no plugins.',
  });
  const disabled = listOf(output['disabled']);
  if (disabled.length > 0) printer.line(`disabled: ${showCell(disabled)}`);
  for (const [name, keys] of Object.entries(rowOf(output['dormant']))) {
    printer.line(`${showCell(name)} waits to be set up; it needs ${showCell(keys)}`);
  }
  showProblems(rowsOf(output['problems']), printer);
  if (printer.isVerbose) showProblems(rowsOf(output['warnings']), printer);
}

function showProblems(problems: readonly Row[], printer: Printer): void {
  if (problems.length > 0) printer.title('Problems');
  for (const { plugin, place, message, hint } of problems) {
    const name = plugin === null ? '' : `${showCell(plugin)}: `;
    printer.line(`${name}${showCell(message)}`);
    printer.line(`  ${showCell(place)}${hint === null ? '' : `. ${showCell(hint)}`}`);
  }
}

function showRun(output: JsonOutput, printer: Printer): void {
  const duration = output['duration_ms'];
  printer.pairs([
    ['job', output['job_id']],
    ['plugin', `${showCell(output['plugin'])} ${showCell(output['command'])}`],
    ['status', output['status']],
    ['reason', output['reason']],
    ['note', output['duplicate'] === true ? 'asked for before; nothing was added' : null],
    ['took', typeof duration === 'number' ? formatDuration(duration) : null],
    ['error', output['last_error']],
    ['result', output['result']],
  ]);
  if (printer.isVerbose || output['status'] !== 'succeeded')
    printer.block('stderr', output['stderr']);
  if (output['timeout_exceeded'] === true) {
    printer.line(`It goes on; see \`ductile job inspect ${showCell(output['job_id'])}\`.`);
  }
}

function showJob(output: JsonOutput, printer: Printer): void {
  const attempts = rowsOf(output['attempts']);
  printer.pairs([
    ['job', output['job_id']],
    ['plugin', `${showCell(output['plugin'])} ${showCell(output['command'])}`],
    ['status', output['status']],
    ['reason', output['reason']],
    ['attempt', output['attempt']],
    ['failures', `${showCell(output['retry_count'])} of ${showCell(output['max_attempts'])}`],
    ['by', `${showCell(output['submitted_by'])} (${showCell(output['actor'])})`],
    ['cause', describeCause(output['cause'])],
    ['parent', describeJob(output['parent'])],
    ['retry of', output['retry_of']],
    ['dedupe key', output['dedupe_key']],
    ['created', output['created_at']],
    ['started', output['started_at']],
    ['completed', output['completed_at']],
    ['next retry', output['next_retry_at']],
    ['cancel asked', output['cancel_requested_at']],
    ['error', output['last_error']],
    ['payload', output['payload']],
    ['result', output['result']],
  ]);
  section(printer, 'Attempts', attempts, [
    ['#', 'attempt'],
    ...attemptColumns,
    ['PROCESS', 'process_id', 'detail'],
    ['ERROR', 'last_error'],
  ]);
  if (printer.isVerbose) {
    for (const { attempt, stderr } of attempts)
      printer.block(`stderr of attempt ${showCell(attempt)}`, stderr);
  }
  section(printer, 'Signals', output['signals'], [
    ['ID', 'signal_id'],
    ['TYPE', 'type'],
    ['OCCURRED', 'occurred_at'],
    ['DATA', 'data', 'detail'],
  ]);
  section(printer, 'Children', output['children'], [
    ['ID', 'job_id'],
    ['PLUGIN', 'plugin'],
    ['COMMAND', 'command'],
    ['STATUS', 'status'],
    ['CREATED', 'created_at'],
  ]);
}

const attemptColumns: Table['columns'] = [
  ['STATUS', 'status'],
  ['CAUSE', 'cause'],
  ['EXIT', 'exit_code'],
  ['QUEUE MS', 'queue_ms'],
  ['SPAWN MS', 'spawn_ms'],
  ['RUN MS', 'run_ms'],
  ['COMPLETED', 'completed_at'],
];

function showLogs(output: JsonOutput, printer: Printer): void {
  const columns: Table['columns'] = [
    ['JOB', 'job_id'],
    ['PLUGIN', 'plugin'],
    ['COMMAND', 'command'],
    ['#', 'attempt'],
    ...attemptColumns,
    ['ERROR', 'last_error'],
  ];
  const rows = rowsOf(output['logs']);
  printer.table(rows, { columns, empty: 'There are no such attempts.' });
  if (!printer.isVerbose) return;
  for (const { log_id, result, stderr } of rows) {
    printer.title(`attempt ${showCell(log_id)}`);
    printer.block('result', typeof result === 'string' ? result : JSON.stringify(result));
    printer.block('stderr', stderr);
  }
}

function showCancel(output: JsonOutput, printer: Printer): void {
  const { job_id, status } = output;
  const name = `job ${showCell(job_id)}`;
  if (status === 'cancelled') printer.line(`${name} is cancelled`);
  else if (status === 'running') printer.line(`${name} is being stopped`);
  else printer.line(`${name} is ${showCell(status)} already; nothing to cancel`);
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

function section(printer: Printer, title: string, value: unknown, columns: Table['columns']): void {
  const rows = rowsOf(value);
  if (rows.length === 0) return;
  printer.title(title);
  printer.table(rows, { columns, empty: '' });
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function rowOf(value: unknown): Row {
  return typeof value === 'object' && value !== null ? (value as Row) : {};
}

/** The rows in a field of an answer. */
export function rowsOf(value: unknown): readonly Row[] {
  return listOf(value).map(rowOf);
}
