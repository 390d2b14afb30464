import type { Command } from 'commander';
import { catalogue } from '../../src/base/error-catalogue.ts';
import { commands } from '../../src/cli/commands.ts';
import type { CliHost, CliIo } from '../../src/cli/host.ts';
import { listParts } from '../../src/cli/help.ts';
import { makeProgram } from '../../src/cli/program.ts';

/** Renders every command with its flags and examples, as `--help` does. */
export function renderCli(): string {
  const words = commands.flatMap(({ noun, action, alias }) => [noun, action, alias?.name ?? '']);
  const silent = { stdout: { write: () => true }, stderr: { write: () => true } };
  const session = { host: {} as CliHost, io: silent as unknown as CliIo, argv: [], exitCode: 0 };
  const program = makeProgram(session, words);
  const nouns = program.commands.filter((command) => command.commands.length > 0);
  const others = program.commands.filter(
    (command) => command.commands.length === 0 && !shortForms().has(command.name()),
  );
  return `# Command line

\`ductile <noun> <action> [flags]\`. Each noun and each action explains itself with \`--help\`. These flags
go anywhere:

${renderFlags(program)}

Short forms: ${[...shortForms()].map(([short, full]) => `\`ductile ${short}\` is \`ductile ${full}\``).join(', ')}.

## Exit codes

| code | meaning |
| --- | --- |
| 0 | done; also when \`--watch\` or \`--follow\` was ended with Ctrl-C |
| 1 | it failed, or the answer is bad news (a job did not succeed, a check found something), or only a noun was given |
| 2 | the command line or the input is wrong; \`config check --fail-on-warnings\`, \
\`config set\` and \`unset\`: done, but there are warnings |
| 78 | the configuration is wrong |

By the code of the error:

| exit code | errors |
| --- | --- |
${renderExits()}

## JSON

With \`--json\` standard output is the result as JSON, and nothing else. It has at most 8 KB:

- A result that is larger is cut. \`cut\` is its last field: \`whole_bytes\` is the size of the whole result,
  \`parts\` lists what was cut and how much of it is shown, and \`commands\` print the rest. Standard error has a note.
- A page of a list has fewer rows instead, and its \`next_cursor\` continues after the last row that is printed.
- Equal attempts of a job that follow each other are folded into the last of them: \`folded\`, \`folded_count\`,
  \`folded_from_attempt\` and \`folded_since\`. This happens only when the result is too large.
- Rows of lists have no fields that are null, and no headers that are masked. Every field with a value is there
  under its name. A payload, a result or the data of a signal is shown as it is, nulls included.
- \`--fields a,b\` picks columns of a list, or fields of any other result; \`attempts.cause\` picks within. A field
  that you name is always there, even if it is null. Counts and the cursor of a list stay.
- \`--limit\` prints that many rows; only long texts in them are cut. \`--full\` prints everything, as the API
  returns it.
- \`--follow\`, \`signal export\` and \`ductile api\` print what comes, whatever its size.

Every command that changes something accepts \`--dry-run\`, which prints what would happen and changes nothing, and
\`--apply\`. Without a flag the change is made, except by \`config set\` and \`config unset\`, which ask for one of
the two. Both flags together are refused.

An error is one line on
standard error: \`{"error", "code", "message", "place"?, "hint", "retryable", "details"?, "exit_code", "docs"}\`.
\`error\` and \`message\` are the same sentence; the first is what the API calls it.

${[...nouns, ...others].map(renderCommand).join('\n')}
This page is written by \`tools/generate\` from the operations and \`src/cli\`.
`;
}

function shortForms(): Map<string, string> {
  return new Map(
    commands.flatMap(({ noun, action, alias }) =>
      alias === undefined ? [] : [[alias.name, `${noun} ${action}`] as const],
    ),
  );
}

function renderExits(): string {
  const byExit = Map.groupBy(Object.entries(catalogue), ([, { exit }]) => exit);
  return [...byExit]
    .sort(([a], [b]) => a - b)
    .map(([exit, kinds]) => `| ${exit} | ${kinds.map(([code]) => `\`${code}\``).join(', ')} |`)
    .join('\n');
}

function renderCommand(command: Command): string {
  const actions = command.commands.map(renderAction).join('\n');
  if (command.commands.length === 0) return renderAction(command).replace('###', '##');
  const own = command.registeredArguments.length === 0 ? '' : `\n${renderBody(command)}\n`;
  return `## ${command.name()}\n\n${command.description()}\n${own}\n${actions}`;
}

function renderAction(command: Command): string {
  const path = pathOf(command);
  return `### ${path}\n\n${command.description()}\n\n${renderBody(command)}\n`;
}

function renderBody(command: Command): string {
  const usage = `ductile ${pathOf(command)} ${command.usage()}`.replace(' [command]', '').trimEnd();
  const definitions = commands.filter(
    ({ noun, action }) => pathOf(command) === `${noun} ${action}`,
  );
  const examples = definitions.flatMap((one) => one.examples).map((example) => `$ ${example}`);
  const block = ['```sh', usage, ...examples, '```'].join('\n');
  const parts = renderParts(definitions.flatMap((one) => one.parts ?? []));
  return [block, renderFlags(command), parts].filter((part) => part !== '').join('\n\n');
}

function renderParts(parts: readonly string[]): string {
  if (parts.length === 0) return '';
  const rows = listParts(parts).map(({ name, description }) => `- \`${name}\`: ${description}`);
  return ['These commands check one part:', '', ...rows].join('\n');
}

function renderFlags(command: Command): string {
  const rows = [
    ...command.registeredArguments.map((argument) => [
      argument.required ? `<${argument.name()}>` : `[${argument.name()}]`,
      argument.description,
    ]),
    ...command.options.map(({ flags, description }) => [flags, description]),
  ];
  if (rows.length === 0) return '';
  const lines = rows.map(([flags = '', meaning = '']) => {
    return `| \`${flags}\` | ${meaning.replaceAll('|', '\\|')} |`;
  });
  return ['| flag | meaning |', '| --- | --- |', ...lines].join('\n');
}

function pathOf(command: Command): string {
  const parent = command.parent?.name();
  return parent === undefined || parent === 'ductile'
    ? command.name()
    : `${parent} ${command.name()}`;
}
