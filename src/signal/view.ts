import type { JsonOutput } from '../operation/define.ts';
import { showCell } from '../cli/print.ts';
import type { Printer } from '../cli/print.ts';
import { showSection, showPairs, listStartedWork } from '../cli/view-parts.ts';
import type { ResultView } from '../cli/view-parts.ts';

export const signalViews: Readonly<Record<string, ResultView>> = {
  'incident.show': showIncident,
  'signal.emit': showEmitted,
  'signal.replay': showReplay,
  'signal.show': showSignal,
};

function showEmitted({ signal_id: id, created }: JsonOutput, printer: Printer): void {
  const before = created === true ? '' : ', which was reported before';
  printer.line(`signal ${showCell(id)}${before}`);
}

function showReplay(output: JsonOutput, printer: Printer): void {
  const { signals, jobs, runs, skipped, unhandled, unopened } = output;
  if (signals === 0) return printer.line('There are no such signals; nothing was started.');
  printer.line(`signals replayed: ${showCell(signals)}`);
  printer.line(`jobs started: ${showCell(jobs)}, runs started: ${showCell(runs)}`);
  if (skipped !== 0) {
    printer.line(
      `skipped, already succeeded or in progress: ${showCell(skipped)} (--force repeats them)`,
    );
  }
  if (unopened !== 0) {
    printer.line(`skipped, masked data cannot be decrypted: ${showCell(unopened)}`);
  }
  if (unhandled !== 0) printer.line(`Nothing handles ${showCell(unhandled)} of them now.`);
  printer.line(`Recorded as directive ${showCell(output['directive_id'])}.`);
}

function showIncident({ signals, detail, ...rest }: JsonOutput, printer: Printer): void {
  showPairs(rest, printer);
  printer.block('detail', JSON.stringify(detail, null, 2));
  showSection(printer, 'Signals', signals, [
    ['OCCURRED', 'occurred_at'],
    ['TYPE', 'type'],
    ['ID', 'signal_id'],
  ]);
}

function showSignal(output: JsonOutput, printer: Printer): void {
  const parts = [output['subject_type'], output['subject_id']].filter((part) => part !== null);
  const subject = parts.map(showCell).join('/');
  printer.pairs([
    ['signal', output['signal_id']],
    ['type', output['type']],
    ['source', output['source']],
    ['subject', subject === '' ? null : subject],
    ['occurred', output['occurred_at']],
    ['recorded', output['inserted_at']],
    ['correlation', output['correlation_id']],
    ['caused by', output['causation_id']],
    ['emitted by job', output['job_id']],
    ['visibility', output['visibility'] === 'internal' ? null : output['visibility']],
  ]);
  printer.block('data', JSON.stringify(output['data'], null, 2));
  listStartedWork(output, printer);
  showSection(printer, 'Signals', output['signals'], [
    ['ID', 'signal_id'],
    ['TYPE', 'type'],
    ['SOURCE', 'source'],
    ['OCCURRED', 'occurred_at'],
  ]);
  if (!printer.isVerbose) return;
  printer.pairs([
    ['dedupe key', output['dedupe_key']],
    ["source's own id", output['source_event_id']],
    ['hops', output['hops']],
    ['metadata', output['metadata']],
  ]);
}
