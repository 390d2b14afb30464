import type { JsonOutput } from '../operation/define.ts';
import { showCell } from '../cli/print.ts';
import type { Printer, Row } from '../cli/print.ts';
import { listOf, rowsOf } from '../cli/view-parts.ts';

/** The answer, the chain that leads to it, and what can be done; nothing that takes long to read. */
export function showWhy(output: JsonOutput, printer: Printer): void {
  const { kind, id, state, verdict, moves_at: movesAt, moves_by: movesBy } = output;
  printer.line(`${showCell(kind)} ${showCell(id)}  ${printer.tint(showCell(state))}`);
  printer.line();
  printer.line(showCell(verdict));
  // The verdict is the first fact in a sentence.
  const [first, ...others] = rowsOf(output['chain']);
  if (first !== undefined) printer.line(tellEvidence(first, printer));
  const blockers = rowsOf(output['blockers']);
  // Of something that waits, the first blocker is the verdict, and the chain begins with all of them.
  const isWaiting = blockers[0]?.['fact'] === first?.['fact'];
  const isListed = isWaiting ? blockers.length > 1 : blockers.length > 0;
  if (isListed) showBlockers(blockers, printer);
  showChain(isListed && isWaiting ? others.slice(blockers.length - 1) : others, printer);
  if (movesAt !== null || movesBy !== null) {
    printer.line();
    printer.pairs([
      ['moves at', movesAt],
      ['moves by', movesBy],
    ]);
  }
  const commands = listOf(output['commands']).map(String);
  if (commands.length === 0) return;
  printer.line();
  for (const command of commands) printer.line(`  $ ${showCell(command)}`);
}

/** Everything that holds it back, to be repaired in this order. */
function showBlockers(blockers: readonly Row[], printer: Printer): void {
  printer.title('What holds it back, in the order of repair:');
  for (const [index, row] of blockers.entries()) {
    printer.line(`  ${index + 1}. ${showCell(row['fact'])}`);
    printer.line(`     ${tellEvidence(row, printer)}`);
    for (const command of listOf(row['commands']).slice(0, 1)) {
      printer.line(`     $ ${showCell(command)}`);
    }
  }
}

/** Each fact came of the one below it. */
function showChain(chain: readonly Row[], printer: Printer): void {
  if (chain.length === 0) return;
  printer.line();
  for (const row of chain) {
    printer.line(`  ← ${showCell(row['fact'])}`);
    printer.line(`    ${tellEvidence(row, printer)}`);
  }
}

function tellEvidence({ evidence, at }: Row, printer: Printer): string {
  const when = at === undefined ? '' : `, ${printer.moment(at)}`;
  return printer.faint(`${showCell(evidence)}${when}`);
}
