import * as z from 'zod';
import { isOffered, type Operation } from '../../src/operation/define.ts';
import { operations } from '../../src/operation/all.ts';
import { scopeOf } from './http.ts';

/** Renders every operation with its command, its route, and its fields. */
export function renderOperations(): string {
  return `# Command line and operations

Every operation is one definition, and each surface is a loop over the list. On the command line
it is \`ductile <noun> <action>\`; on the control socket it is the route below. \`--json\` prints the
answer as it is on the socket, \`--config\` names the configuration, \`-v\` shows more, \`--dry-run\`
says what an operation that writes would do.

Besides these: \`ductile system start\` (the service in the foreground), \`ductile system restore --from FILE\`,
\`ductile demo [--dir DIR] [--rounds N]\`, \`ductile version\`.

${operations.map(renderOperation).join('\n')}
This page is written by \`tools/generate\` from the operations in \`src\`.
`;
}

function renderOperation(operation: Operation): string {
  const { name, summary, effect, http, cli, input, output } = operation;
  const route = isOffered(http) ? `\`${http.method} ${http.path}\`` : http.absent;
  const command = isOffered(cli)
    ? cli.examples.map((example) => `\`${example}\``).join('<br>')
    : cli.absent;
  return `## ${name}

${summary}

| | |
| --- | --- |
| command line | ${command} |
| control socket | ${route} |
| effect | ${effect} |
| scope | ${scopeOf(operation)} |
| input | ${fieldsOf(input)} |
| output | ${fieldsOf(output)} |
`;
}

function fieldsOf(schema: z.ZodObject): string {
  const { properties = {}, required = [] } = z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: 'any',
  });
  const fields = Object.keys(properties).map((field) =>
    required.includes(field) ? `\`${field}\`` : `\`${field}\`?`,
  );
  return fields.length === 0 ? 'none' : fields.join(', ');
}
