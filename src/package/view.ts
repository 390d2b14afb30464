import type { JsonOutput } from '../operation/define.ts';
import { showCell } from '../cli/print.ts';
import type { Printer, ResultRow } from '../cli/print.ts';
import { listOf, rowOf, showSection, type ResultView } from '../cli/view-parts.ts';

export const packageViews: Readonly<Record<string, ResultView>> = {
  'package.install': showChange,
  'package.upgrade': showChange,
  'package.show': showPackage,
  'package.validate': showValidity,
  'installation.show': showInstallation,
};

function showPackage(output: JsonOutput, printer: Printer): void {
  printer.pairs([
    ['package', output['slug']],
    ['version', output['version']],
    ['versions', output['versions']],
    ['title', output['title']],
    ['description', output['description']],
    ['category', output['category']],
    ['installed', output['installed']],
    ['place', output['place']],
    ['hash', output['hash']],
  ]);
  showSection(printer, 'Requires', output['requires'], [
    ['PLUGIN', 'plugin'],
    ['COMMANDS', 'commands'],
    ['VERSION', 'version'],
  ]);
  showSection(printer, 'Provides', output['provides'], provided);
  showSettings(rowOf(output['config_schema']), printer);
}

/** Lists the settings for `--with`; `--json` has the whole schema. */
function showSettings(schema: ResultRow, printer: Printer): void {
  const required = listOf(schema['required']);
  const rows = Object.entries(rowOf(schema['properties'])).map(([name, property]) => {
    const { type, default: usual, description } = rowOf(property);
    const isNeeded = required.includes(name) ? 'required' : null;
    return { name, type, usual: usual ?? isNeeded, description };
  });
  showSection(printer, 'Configuration (--with)', rows, [
    ['NAME', 'name'],
    ['TYPE', 'type'],
    ['DEFAULT', 'usual'],
    ['MEANING', 'description'],
  ]);
  if (printer.isVerbose) printer.block('config schema', JSON.stringify(schema, null, 2));
}

function showChange(output: JsonOutput, printer: Printer): void {
  const counts = Object.entries(rowOf(output['provisioned']));
  const words = counts.map(
    ([kind, count]) => `${showCell(count)} ${kind}${count === 1 ? '' : 's'}`,
  );
  printer.pairs([
    ['installation', output['installation_id']],
    ['package', output['package']],
    ['version', output['version']],
    ['added', words.join(', ')],
    ['directive', output['directive_id']],
  ]);
  showSection(printer, 'Webhooks (secrets are shown only once)', output['webhooks'], [
    ['ID', 'id'],
    ['PATH', 'path'],
    ['SECRET', 'secret'],
  ]);
}

function showValidity(output: JsonOutput, printer: Printer): void {
  const { slug, version, problems } = output;
  for (const problem of listOf(problems)) {
    const { place, message, hint } = problem as JsonOutput;
    const end = hint === null ? '' : ` ${showCell(hint)}`;
    printer.line(`${showCell(place)}: ${showCell(message)}.${end}`);
  }
  if (output['valid'] === true)
    printer.line(`${showCell(slug)} ${showCell(version)} is a valid package.`);
}

function showInstallation(output: JsonOutput, printer: Printer): void {
  printer.pairs([
    ['installation', output['installation_id']],
    ['package', output['package']],
    ['version', output['version']],
    ['status', output['status']],
    ['error', output['last_error']],
    ['installed by', output['installed_by']],
    ['installed', output['installed_at']],
    ['changed', output['updated_at']],
    ['by directive', output['directive_id']],
  ]);
  printer.block('config', JSON.stringify(output['config'], null, 2));
  showSection(printer, 'Provides', output['provisions'], [...provided, ['REMOVED', 'removed_at']]);
}

const provided: readonly (readonly [string, string])[] = [
  ['KIND', 'kind'],
  ['NAME', 'name'],
];
