import { formatDuration } from '../base/quantity.ts';
import type { JsonOutput } from '../operation/define.ts';
import { showCell, type Printer, type ResultRow } from '../cli/print.ts';
import { describeCounts } from '../insight/view.ts';
import { listOf, rowOf, rowsOf, showSection, listProblems } from '../cli/view-parts.ts';
import { describeUnhealthy } from '../plugin/view.ts';
import type { Proof } from '../operation/extras.ts';

export function showStatus(output: JsonOutput, printer: Printer): void {
  const queue = rowOf(output['queue']);
  const plugins = rowOf(output['plugins']);
  const problems = rowsOf(plugins['problems']);
  const waiting = `${showCell(queue['ready'])} ready, ${showCell(queue['delayed'])} delayed`;
  // Without a service, this command opened the ledger itself, so there is no process to describe.
  const isHere = output['state'] !== 'stopped';
  const slots = `${rowsOf(output['running']).length} of ${showCell(output['slots'])} slots here`;
  printer.pairs([
    ['state', output['state']],
    ['detail', output['detail']],
    ['process', isHere ? output['process_id'] : null],
    ['up', isHere ? formatDuration(Number(output['uptime_seconds']) * 1000) : null],
    ['ledger', output['ledger']],
    ['api', output['api']],
    ['spawner', isHere ? output['spawner'] : null],
    ['queue', `${waiting}, ${showCell(queue['running'])} running${isHere ? ` (${slots})` : ''}`],
    ['waiting since', queue['oldest_ready_at']],
    ['since start', isHere ? showCounts(rowOf(output['counts'])) : null],
    ['plugins', `${showCell(plugins['loaded'])} loaded, ${problems.length} with problems`],
    ['findings', formatFindings(rowOf(output['findings']))],
    ['last reload', formatRefused(rowOf(rowOf(output['generation'])['last_reload']))],
  ]);
  for (const { severity, message } of rowsOf(rowOf(output['findings'])['first'])) {
    printer.line(`${printer.tint(showCell(severity))}  ${showCell(message)}`);
  }
  const unhealthy = Object.entries(rowOf(plugins['unhealthy']));
  for (const [name, reason] of unhealthy) printer.advise(describeUnhealthy(name, reason));
  listProblems(problems, printer);
  if (printer.isVerbose) listProblems(rowsOf(plugins['warnings']), printer);
  showSection(printer, 'Last jobs', output['last_jobs'], [
    ['JOB', 'job_id'],
    ['PLUGIN', 'plugin'],
    ['COMMAND', 'command'],
    ['STATUS', 'status'],
    ['CREATED', 'created_at'],
    ['ERROR', 'last_error'],
  ]);
  showSection(printer, 'State of plugins', rowsOf(plugins['views']).map(showView), [
    ['PLUGIN', 'plugin'],
    ['STATE', 'state'],
  ]);
  showSection(printer, 'Processes', output['processes'], [
    ['ID', 'process_id'],
    ['HOST', 'host'],
    ['PID', 'pid'],
    ['VERSION', 'version'],
    ['SLOTS', 'slots'],
    ['SPAWNER', 'spawner'],
    ['STARTED', 'started_at'],
    ['HEARTBEAT', 'last_heartbeat_at'],
  ]);
  showSection(printer, 'Running here', output['running'], [
    ['JOB', 'job_id'],
    ['PLUGIN', 'plugin'],
    ['COMMAND', 'command'],
  ]);
}

function formatFindings(findings: ResultRow): string | null {
  if (findings['errors'] === undefined) return null;
  const counted = describeCounts(findings);
  return rowsOf(findings['first']).length === 0 ? 'none' : `${counted}; run ductile doctor`;
}

/** Formats a refused reload: one that a signal requested could report it to no caller. */
function formatRefused({ at, by, refused }: ResultRow): string | null {
  if (typeof refused !== 'string') return null;
  return `refused, so the previous configuration stays active: ${refused} (${showCell(by)}, ${showCell(at)})`;
}

function showView(view: ResultRow): ResultRow {
  return { ...view, state: view['state'] ?? `${showCell(view['bytes'])} bytes` };
}

function showCounts(counts: ResultRow): string | null {
  const { signals_emitted: signals } = counts;
  if (signals === undefined) return null;
  const ends = ['completed', 'failed', 'cancelled'].map(
    (end) => `${showCell(counts[`directives_${end}`])} ${end}`,
  );
  const requested = showCell(counts['directives_requested']);
  return `${showCell(signals)} signals; ${requested} directives: ${ends.join(', ')}`;
}

export function showCheck(output: JsonOutput, printer: Printer): void {
  const problems = listOf(output['problems']);
  if (problems.length === 0) return printer.line('The database has no problems.');
  printer.line(`The database has ${problems.length} problems:`);
  for (const problem of problems) printer.line(`  ${showCell(problem)}`);
}

/** Shows the result of a restore, an import or a migration, with a table of ledgers. */
export function showTransfer({ ledgers, tenants, ...rest }: JsonOutput, printer: Printer): void {
  printer.pairs(Object.entries(rest).map(([name, value]) => [name.replaceAll('_', ' '), value]));
  showSection(printer, 'Ledgers', ledgers, [
    ['TENANT', 'tenant'],
    ['ROWS', 'rows'],
    ['SAME', 'same'],
  ]);
  showSection(printer, 'Tenants', tenants, [
    ['TENANT', 'slug'],
    ['BEFORE', 'schema_before'],
    ['SCHEMA', 'schema'],
    ['ERROR', 'error'],
  ]);
}

const verdicts: Readonly<Record<Proof['verdict'], string>> = {
  kept: 'Nothing was lost, and nothing was done twice.',
  broken: 'A guarantee was broken.',
  untried: 'Nothing is proven: nothing could be started, or nothing was killed.',
};

/** Shows the verdict first, then the evidence. */
export function showProof(output: JsonOutput, printer: Printer): void {
  // No service on another host answers this, so it has the shape that this program writes.
  const proof = output as Proof;
  const { verdict, broken, kills, ledger, recovery_ms: recovery } = proof;
  printer.line(`${printer.tint(verdict)}: ${verdicts[verdict]}`);
  for (const line of broken) printer.line(`  ${showCell(line)}`);
  printer.line();
  const points = `${kills.at_points} at named points`;
  printer.pairs([
    [
      'killed',
      `service ${kills.engine} (${points}), spawner ${kills.spawner}, plugins ${kills.plugin}`,
    ],
    ['within', `${proof.seconds} s, with seed ${proof.seed}`],
    ['jobs', `${proof.jobs}; repeated attempts: ${proof.repeated}`],
    ['lost', proof.lost],
    ['done twice', proof.twice],
    ['different outcome', proof.different],
    ['damage', proof.damaged],
    ['recovery time', formatRecovery('the service', recovery.engine)],
    ['', formatRecovery('the spawner', recovery.spawner)],
    ['', formatRecovery('a plugin', recovery.plugin)],
    [
      'on a copy of',
      `${ledger.kind}, ${ledger.jobs} finished jobs and ${ledger.runs} finished runs`,
    ],
  ]);
  showSection(printer, 'Tried', output['tried'], [
    ['NAME', 'name'],
    ['KIND', 'kind'],
    ['TIMES', 'times'],
    ['JOBS EACH', 'jobs'],
    ['PAYLOAD FROM', 'payload'],
    ['WITHOUT KILLS', 'in_peace'],
  ]);
  showSection(printer, 'Stand-ins', output['stubbed'], [
    ['COMMAND', 'command'],
    ['STEP', 'step'],
    ['RESPONSE FROM', 'by'],
    ['JOB', 'job_id'],
    ['WITHOUT', 'without'],
  ]);
  showSection(printer, 'Not tried', output['untried'], [
    ['WHAT', 'what'],
    ['WHY', 'why'],
  ]);
  printer.title('Differences from the configuration');
  for (const line of proof.changes) printer.line(showCell(line));
}

function formatRecovery(whose: string, spread: Proof['recovery_ms']['engine']): string | null {
  if (spread === null) return null;
  const { n, p50, p99, max } = spread;
  return `${whose}: p50 ${p50} ms, p99 ${p99} ms, longest ${max} ms (n = ${n})`;
}
