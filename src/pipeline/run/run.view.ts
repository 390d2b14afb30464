import type { JsonOutput } from '../../operation/define.ts';
import { showCell } from '../../cli/print.ts';
import type { Printer, ResultRow } from '../../cli/print.ts';
import {
  rowOf,
  rowsOf,
  showSection,
  listWaitingWork,
  withRealState,
} from '../../cli/view-parts.ts';
import type { ResultView } from '../../cli/view-parts.ts';

/** Terminal views of runs and of their changes. */
export const runViews: Readonly<Record<string, ResultView>> = {
  'pipeline.run': showStarted,
  'run.wait': showStarted,
  'run.show': showRun,
  'run.tree': showRunTree,
  'run.cancel': showCancelled,
  'run.revive': showBegun,
  'run.retry-from': showBegun,
  'run.approve': showDecision,
  'run.reject': showDecision,
};

function showRun(output: JsonOutput, printer: Printer): void {
  showHead(output, printer, [
    ['payload', shortJson(output['payload'], printer)],
    ['output', shortJson(output['output'], printer)],
  ]);
  showSection(printer, 'Steps', output['steps'], [
    ['STEP', 'step'],
    ['BRANCH', 'branch'],
    ['KIND', 'kind'],
    ['STATUS', 'status'],
    ['MS', 'duration_ms'],
    ['COMPLETED', 'completed_at'],
    ['JOB', 'job_id'],
    ['ID', 'step_id', 'detail'],
    ['NEXT', 'next_step', 'detail'],
    ['NOTE', 'note'],
    ['ERROR', 'error'],
  ]);
  showSection(printer, 'Approvals', rowsOf(output['approvals']).map(withVerdict), [
    ['STEP', 'step'],
    ['DECISION', 'decision'],
    ['BY', 'by'],
    ['AT', 'at'],
    ['REASON', 'reason'],
  ]);
  const branches = rowsOf(output['branches']);
  if (branches.length > 1 || printer.isVerbose) {
    showSection(printer, 'Branches', branches, [
      ['BRANCH', 'branch'],
      ['BLOCK', 'block'],
      ['ARM', 'label'],
      ['AT STEP', 'step'],
      ['STATUS', 'status'],
      ['WIDTH', 'width', 'detail'],
      ['PENDING', 'pending', 'detail'],
      ['MS', 'duration_ms'],
      ['REASON', 'halt_reason'],
      ['ERROR', 'halt_message'],
    ]);
  }
  showSection(printer, 'Waiting', output['waiting'], [
    ['STEP', 'step'],
    ['BRANCH', 'branch'],
    ['WHY', 'why'],
    ['UNTIL', 'until'],
    ['STEP ID', 'step_id', 'detail'],
  ]);
  printRest(output, printer);
  printNext(output, printer);
}

function withVerdict(row: ResultRow): ResultRow {
  return { ...row, decision: row['approved'] === true ? 'approved' : 'rejected' };
}

const DUPLICATE = 'this run already has the dedupe key; nothing was started';

function showStarted(output: JsonOutput, printer: Printer): void {
  if (!('created_at' in output)) {
    printer.pairs([
      ['run', output['run_id']],
      ['pipeline', output['pipeline']],
      ['status', output['status']],
    ]);
    return;
  }
  showHead(output, printer, [
    ['note', output['duplicate'] === true ? DUPLICATE : null],
    ['result', shortJson(output['result'], printer)],
  ]);
  showSection(printer, 'Steps', output['tree'], [
    ['STEP', 'step'],
    ['BRANCH', 'branch'],
    ['STATUS', 'status'],
    ['MS', 'duration_ms'],
    ['JOB', 'job_id', 'detail'],
    ['ERROR', 'error'],
  ]);
  if (output['complete'] !== undefined) printRest(output, printer);
  if (output['waiting'] !== undefined) {
    listWaitingWork(output, printer);
    printNext(output, printer);
  }
  if (output['timeout_exceeded'] !== true) return;
  printer.line();
  const id = showCell(output['run_id']);
  const { kind, step } = rowOf(output['waiting_for']);
  printer.advise(
    kind === 'approval'
      ? `\`ductile run approve ${id} ${showCell(step)}\` continues it; \`run reject\` stops it.`
      : `It continues; \`ductile run show ${id}\` shows its progress.`,
  );
}

const SHOWN_CHARS_MAX = 500;

/** Shortens large values; `--verbose` shows them in full. */
function shortJson(value: unknown, { isVerbose }: Printer): string | null {
  if (value === null || value === undefined) return null;
  const chars = JSON.stringify(value);
  if (isVerbose || chars.length <= SHOWN_CHARS_MAX) return chars;
  return `${chars.slice(0, SHOWN_CHARS_MAX)}… (${chars.length} characters; -v shows all)`;
}

function showHead(
  run: JsonOutput,
  printer: Printer,
  more: readonly (readonly [label: string, value: unknown])[],
): void {
  const { duration_ms: duration, halt_message: message } = run;
  printer.pairs([
    ['run', run['run_id']],
    ['pipeline', run['pipeline']],
    ['status', withRealState(run)['status']],
    ['waits for', withRealState(run)['waiting_for']],
    ['halted at', run['halted_at_step']],
    ['reason', run['halt_reason']],
    ['error', message],
    ['by', `${showCell(run['submitted_by'])} (${showCell(run['actor'])})`],
    ['signal', run['source_event_id']],
    ['dedupe key', run['dedupe_key']],
    ['revives', run['revived_from']],
    ['revived as', run['revived_as']],
    ['created', run['created_at']],
    ['due', run['due_at']],
    ['started', run['started_at']],
    ['completed', run['completed_at']],
    ['took', typeof duration === 'number' ? `${duration}ms` : null],
    ...more,
  ]);
}

function showRunTree(output: JsonOutput, printer: Printer): void {
  const run = rowOf(output['run']);
  printer.pairs([
    ['run', run['run_id']],
    ['pipeline', run['pipeline']],
    ['status', run['status']],
  ]);
  const lines = rowsOf(output['nodes']).map((node) => ({ ...node, shown: indent(node) }));
  printer.table(lines, {
    columns: [
      ['STEP', 'shown'],
      ['KIND', 'kind'],
      ['STATUS', 'status'],
      ['MS', 'duration_ms'],
      ['JOB', 'job_id'],
      ['NOTE', 'note'],
      ['ERROR', 'error'],
    ],
    empty: 'The run has not started.',
  });
  printRest(output, printer);
}

function indent({ depth, name, kind }: ResultRow): string {
  const shown = kind === 'branch' ? `[${showCell(name)}]` : showCell(name);
  return `${'  '.repeat(Number(depth))}${shown}`;
}

function printRest({ complete }: JsonOutput, printer: Printer): void {
  if (complete === false)
    printer.line(
      'The run is too large to show in full. Its first parts and its failures are shown.',
    );
}

function printNext(output: JsonOutput, printer: Printer): void {
  const id = showCell(output['run_id']);
  if (output['status'] === 'halted' && output['revived_as'] === null) {
    printer.line();
    printer.advise(`\`ductile run revive ${id}\` continues it in a new run.`);
  }
  const asked = rowsOf(output['waiting']).filter(
    ({ why, run_id: of = id }) => of === id && String(why).startsWith('it waits for approval'),
  );
  const [first, ...others] = asked;
  if (first === undefined) return;
  // If several branches wait at one step, only the row id names one of them.
  const isOne = others.every(({ step }) => step !== first['step']);
  const named = showCell(isOne ? first['step'] : first['step_id']);
  printer.line();
  printer.advise(`\`ductile run approve ${id} ${named}\` continues it.`);
}

function showCancelled({ run_id, status, outcome, stopping }: JsonOutput, printer: Printer): void {
  const name = `run ${showCell(run_id)}`;
  if (outcome !== 'cancelled') {
    return printer.line(`${name} is already ${showCell(status)}; nothing to cancel`);
  }
  printer.line(`${name} is cancelled`);
  const { length } = Array.isArray(stopping) ? stopping : [];
  if (length > 0)
    printer.line(`${length} running ${length === 1 ? 'job is' : 'jobs are'} being stopped`);
}

function showBegun(output: JsonOutput, printer: Printer): void {
  printer.pairs([
    ['run', output['run_id']],
    ['continues', output['revived_from']],
    ['pipeline', output['pipeline']],
    ['status', output['status']],
    ['directive', output['directive_id']],
  ]);
}

function showDecision({ step, approved, by, run_id }: JsonOutput, printer: Printer): void {
  const what = approved === true ? 'approved' : 'rejected';
  printer.line(`step ${showCell(step)} of run ${showCell(run_id)} is ${what} by ${showCell(by)}`);
}
