import { toVisibleText } from '../base/text.ts';
import type { JsonOutput } from '../operation/define.ts';
import type { Printer, ResultRow } from '../cli/print.ts';
import { showCell } from '../cli/print.ts';
import { listOf, rowsOf, showSection, type ResultView } from '../cli/view-parts.ts';

export const pipelineViews: Readonly<Record<string, ResultView>> = {
  'pipeline.show': showPipeline,
  'pipeline.graph': showDrawing,
  'pipeline.test': showTest,
};

function showPipeline({ steps, ...rest }: JsonOutput, printer: Printer): void {
  printer.pairs(Object.entries(rest).map(([name, value]) => [name.replaceAll('_', ' '), value]));
  printer.title('Steps');
  showSteps(rowsOf(steps), '', printer);
}

/** Shows the steps, with inner steps indented. */
function showSteps(steps: readonly ResultRow[], lead: string, printer: Printer): void {
  for (const { id, does, notes, arms } of steps) {
    printer.line(`${lead}${showCell(id)}: ${showCell(does)}`);
    for (const note of listOf(notes)) printer.line(`${lead}    ${showCell(note)}`);
    for (const { label, steps: inner } of rowsOf(arms)) {
      const within = rowsOf(inner);
      const isNamed = label !== null && !(within.length === 1 && within[0]?.['id'] === label);
      if (isNamed) printer.line(`${lead}  ${showCell(label)}`);
      showSteps(within, `${lead}${isNamed ? '    ' : '  '}`, printer);
    }
  }
}

function showDrawing({ drawing }: JsonOutput, printer: Printer): void {
  for (const line of String(drawing).trimEnd().split('\n')) printer.line(toVisibleText(line));
}

function showTest(output: JsonOutput, printer: Printer): void {
  const { status, result, on_halt: onHalt, complete } = output;
  const steps = rowsOf(output['steps']).map((row) => ({
    ...row,
    says: row['error'] ?? row['note'],
  }));
  printer.table(steps, {
    columns: [
      ['BRANCH', 'branch'],
      ['STEP', 'step'],
      ['DOES', 'does'],
      ['STATUS', 'status'],
      ['WHY', 'why'],
      ['NOTE', 'says'],
      ['INPUT', 'input', 'detail'],
      ['OUTPUT', 'output', 'detail'],
    ],
    empty: 'No steps.',
  });
  showSection(printer, 'Next', output['next'], [
    ['BRANCH', 'branch'],
    ['STEP', 'step'],
    ['KIND', 'kind'],
    ['DOES', 'does'],
    ['WHY', 'why'],
    ['INPUT', 'input'],
    ['QUESTION', 'message', 'detail'],
  ]);
  showSection(printer, 'Halted', output['halts'], [
    ['BRANCH', 'branch'],
    ['STEP', 'step'],
    ['REASON', 'reason'],
    ['MESSAGE', 'message'],
  ]);
  printer.line();
  printer.pairs([
    ['status', status === 'open' ? 'waiting for responses' : status],
    ['result', result],
    ['on halt', onHalt],
  ]);
  if (complete === false) printer.line('The simulation stopped at its size limit.');
}
