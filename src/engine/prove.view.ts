import type { JsonOutput } from '../operation/define.ts';
import type { Proof } from './prover.ts';
import { showCell, type Printer } from '../cli/print.ts';
import { section } from '../cli/view-parts.ts';

const verdicts: Readonly<Record<Proof['verdict'], string>> = {
  kept: 'Nothing was lost, and nothing was done twice.',
  broken: 'A promise was broken.',
  untried: 'Nothing is proven: nothing could be started, or nothing was killed.',
};

/** What was found when things were killed: first the verdict, then all that it rests on. */
export function showProof(output: JsonOutput, printer: Printer): void {
  // No server elsewhere answers this, so it is what this very program says.
  const proof = output as Proof;
  const { verdict, broken, kills, ledger, recovery_ms: recovery } = proof;
  printer.line(`${printer.tint(verdict)}: ${verdicts[verdict]}`);
  for (const line of broken) printer.line(`  ${showCell(line)}`);
  printer.line();
  const points = `${kills.at_points} at named points`;
  printer.pairs([
    [
      'killed',
      `engine ${kills.engine} (${points}), spawner ${kills.spawner}, plugins ${kills.plugin}`,
    ],
    ['within', `${proof.seconds} s, with seed ${proof.seed}`],
    ['jobs', `${proof.jobs}; attempts begun again: ${proof.repeated}`],
    ['lost', proof.lost],
    ['done twice', proof.twice],
    ['came out otherwise', proof.different],
    ['damage', proof.damaged],
    ['works again after', sayRecovery('the engine', recovery.engine)],
    ['', sayRecovery('the spawner', recovery.spawner)],
    ['', sayRecovery('a plugin', recovery.plugin)],
    ['on a copy of', `${ledger.kind}, ${ledger.jobs} jobs and ${ledger.runs} runs that are over`],
  ]);
  section(printer, 'Tried', output['tried'], [
    ['NAME', 'name'],
    ['KIND', 'kind'],
    ['TIMES', 'times'],
    ['JOBS EACH', 'jobs'],
    ['PAYLOAD OF', 'payload'],
    ['IN PEACE', 'in_peace'],
  ]);
  section(printer, 'Stand-ins', output['stubbed'], [
    ['COMMAND', 'command'],
    ['AS STEP', 'step'],
    ['ANSWERED BY', 'by'],
    ['OF JOB', 'job_id'],
    ['WITHOUT', 'without'],
  ]);
  section(printer, 'Not tried', output['untried'], [
    ['WHAT', 'what'],
    ['WHY', 'why'],
  ]);
  printer.title('Otherwise than configured');
  for (const line of proof.changes) printer.line(showCell(line));
}

function sayRecovery(whose: string, spread: Proof['recovery_ms']['engine']): string | null {
  if (spread === null) return null;
  const { n, p50, p99, max } = spread;
  return `${whose}: p50 ${p50} ms, p99 ${p99} ms, longest ${max} ms (n = ${n})`;
}
