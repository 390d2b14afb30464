import { isObject } from '../base/json.ts';
import { toVisibleText } from '../base/text.ts';
import type { JsonOutput } from '../operation/define.ts';
import { showCell } from '../cli/print.ts';
import type { Printer } from '../cli/print.ts';
import { listOf, rowOf, rowsOf, showSection } from '../cli/view-parts.ts';
import type { ResultView } from '../cli/view-parts.ts';

export const configViews: Readonly<Record<string, ResultView>> = {
  'config.check': showFindings,
  'pipeline.check': showFindings,
  'config.init': showInit,
  'config.lock': showLock,
  'config.show': showYaml,
  'config.get': showKey,
  'config.set': showChange,
  'config.unset': showChange,
  'config.restore': showRestore,
  'config.diff': showDiff,
  'config.schema': showSchema,
  'config.view': showView,
};

function showFindings(output: JsonOutput, printer: Printer): void {
  for (const { severity, place, key, message, fix } of rowsOf(output['findings'])) {
    if (severity === 'info' && !printer.isVerbose) continue;
    const name = key === '' ? '' : `${showCell(key)} `;
    printer.line(`${printer.tint(showCell(severity))}  ${name}${showCell(message)}`);
    printer.line(`  ${showCell(place)}`);
    printer.line(`  ${showCell(fix)}`);
  }
  const { errors, warnings } = output;
  if (errors === 0 && warnings === 0) return printer.line('Nothing is wrong.');
  printer.line(`${countOf(errors, 'error')}, ${countOf(warnings, 'warning')}`);
}

function showInit(output: JsonOutput, printer: Printer): void {
  const { directory, files, url, token, next } = output;
  printer.pairs([
    ['directory', directory],
    ['written', files],
    ['api', url],
    ['token', token],
  ]);
  if (token !== null)
    printer.line('The token is shown only once. It is stored in .env, which only you can read.');
  printer.line('');
  printer.line('Next:');
  for (const command of listOf(next)) printer.line(`  ${showCell(command)}`);
}

function showLock(output: JsonOutput, printer: Printer): void {
  const files = rowsOf(output['files']);
  const columns = [
    ['FILE', 'path'],
    ['TIER', 'tier'],
    ['BLAKE3', 'hash'],
  ] as const;
  if (printer.isVerbose) printer.table(files, { columns, empty: '' });
  printer.line(`${countOf(files.length, 'file')} locked in ${showCell(output['manifest'])}`);
}

function showYaml({ yaml }: JsonOutput, printer: Printer): void {
  for (const line of String(yaml).trimEnd().split('\n')) printer.line(toVisibleText(line));
}

function showKey({ value, source }: JsonOutput, printer: Printer): void {
  const isPlain = !isObject(value) && !Array.isArray(value);
  if (isPlain) printer.line(showCell(value));
  else printer.json(value);
  if (printer.isVerbose) printer.line(`  ${showCell(source)}`);
}

function showChange(output: JsonOutput, printer: Printer): void {
  const { key, before, after, file, backup, locked } = output;
  const was = before === undefined ? '' : ` (it was ${showValue(before)})`;
  const is = after === undefined ? 'no longer set' : `now ${showValue(after)}`;
  printer.line(`${showCell(key)} is ${is}${was}`);
  printer.line(`  ${showCell(file)}; the previous version is in ${showCell(backup)}`);
  if (locked !== true) printer.advise('  The file is not locked. Run `ductile config diff`.');
  showFindings(rowOf(output['validation']), printer);
}

/** Formats null and lists, too, as they would be written. */
function showValue(value: unknown): string {
  return toVisibleText(typeof value === 'string' ? value : JSON.stringify(value));
}

function showRestore(output: JsonOutput, printer: Printer): void {
  const { directory, files, aside, previous } = output;
  printer.pairs([
    ['directory', directory],
    ['restored', files],
    ['set aside', listOf(aside).length === 0 ? null : aside],
    ['before', previous],
  ]);
  showFindings(rowOf(output['validation']), printer);
}

function showDiff(output: JsonOutput, printer: Printer): void {
  const against = showCell(output['compared_with']);
  const hasKeys = listOf(output['keys']).length > 0;
  if (against === 'no lock' && listOf(output['files']).length === 0 && !hasKeys) {
    return printer.advise('There is no lock. Run `ductile config lock` to create one.');
  }
  if (output['same'] === true) return printer.line(`The same as ${against}.`);
  printer.line(`Compared with ${against}:`);
  for (const { path, change, tier } of rowsOf(output['files'])) {
    printer.line(`  ${showCell(change)}  ${showCell(path)}${tier === 'high' ? ' (high)' : ''}`);
  }
  for (const { key, change, file } of rowsOf(output['plugins'])) {
    printer.line(`  ${showCell(key)} ${showCell(change)}: ${showCell(file)}`);
  }
  showSection(
    printer,
    `Keys, compared with ${showCell(output['keys_compared_with'])}`,
    output['keys'],
    [
      ['KEY', 'key'],
      ['BEFORE', 'before'],
      ['AFTER', 'after'],
    ],
  );
}

function showSchema({ schema }: JsonOutput, printer: Printer): void {
  printer.json(schema);
}

function showView(output: JsonOutput, printer: Printer): void {
  printer.pairs([
    ['file', output['file']],
    ['fingerprint', output['fingerprint']],
  ]);
  printer.json(output['config']);
}

function countOf(count: unknown, what: string): string {
  return `${showCell(count)} ${what}${count === 1 ? '' : 's'}`;
}
