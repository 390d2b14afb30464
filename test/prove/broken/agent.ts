/** The same operator as an agent, which uses `ductile mcp` over standard input and output. */
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { onTestFinished } from 'vitest';
import type { JsonObject } from '../../../src/base/json.ts';
import { commands, type CommandDefinition } from '../../../src/cli/commands.ts';
import { operationToolName } from '../../../src/mcp/tools.ts';
import { root } from '../../support/crash/server.ts';
import { toAgent, type Agent } from '../../support/mcp-client.ts';
import { makeOperator, type Answer, type Finding, type Operator } from './operator.ts';

/** Calls tools in place of the commands that are tools; an agent has a shell for the others. */
export async function makeAgentOperator(directory: string): Promise<Operator> {
  const person = await makeOperator({ directory }, 'variable');
  const agent = await connectAgent(directory);
  const answers: Answer[] = [];
  const call = async (name: string, input: JsonObject): Promise<JsonObject> => {
    const { isError, text, data } = await agent.call(name, input);
    const line = `${name} ${JSON.stringify(input)}`;
    const [stdout, stderr] = isError ? ['', text] : [text, ''];
    answers.push({ line, code: isError ? 1 : 0, stdout, stderr });
    return data;
  };
  return {
    answers,
    async run(line, secret) {
      const calls = line.split(' && ').map(toCall);
      if (secret !== undefined || calls.includes(undefined)) {
        const answer = await person.run(line, secret);
        answers.push(answer);
        return answer;
      }
      let failed: Answer | undefined;
      for (const { name, input } of calls.filter((one) => one !== undefined)) {
        await call(name, input);
        const last = answers.at(-1);
        if (last !== undefined && last.code !== 0) failed ??= last;
      }
      return failed ?? { line, code: 0, stdout: '', stderr: '' };
    },
    async doctor() {
      const { answer } = await call('system_doctor', {});
      return (answer as { findings: unknown }).findings as Finding[];
    },
    why: (id) => call('why_explain', { id }),
  };
}

async function connectAgent(directory: string): Promise<Agent> {
  const transport = new StdioClientTransport({
    command: join(root, 'node_modules/.bin/node'),
    args: [join(root, 'bin/ductile.cjs'), 'mcp', '--config', directory],
    env: { HOME: directory, PATH: process.env['PATH'] ?? '' },
    stderr: 'inherit',
  });
  const client = new Client({ name: 'on-call', version: '1.0.0' });
  await client.connect(transport);
  onTestFinished(() => client.close());
  return toAgent(client);
}

interface ToolCall {
  readonly name: string;
  readonly input: JsonObject;
}

/** Translates a command to its tool; undefined if there is none. */
export function toCall(line: string): ToolCall | undefined {
  const [program, ...words] = splitWords(line);
  if (program !== 'ductile') return undefined;
  const found = findCommand(words);
  if (found === undefined) return undefined;
  const { command, rest } = found;
  const input: Record<string, unknown> = {};
  const positionals = [...(command.positionals ?? [])];
  for (let index = 0; index < rest.length; index += 1) {
    const word = rest[index] ?? '';
    const field = word.startsWith('--')
      ? word.slice(2).replaceAll('-', '_')
      : (positionals.shift() ?? '');
    const schema = command.fields.find((one) => one.field === field);
    if (schema === undefined) return undefined;
    const isSwitch = schema.types.every((type) => type === 'boolean');
    if (word.startsWith('--') && !isSwitch) index += 1;
    input[field] = isSwitch ? true : toValue(rest[index] ?? '', schema.types);
  }
  return { name: operationToolName(command.name), input: input as JsonObject };
}

function findCommand(
  words: readonly string[],
): { readonly command: CommandDefinition; readonly rest: readonly string[] } | undefined {
  const [first = '', second = ''] = words;
  const full = commands.find(
    ({ noun, action, flag }) => noun === first && action === second && flag === undefined,
  );
  if (full !== undefined) return { command: full, rest: words.slice(2) };
  const short = commands.find(({ alias }) => alias?.name === first);
  return short === undefined ? undefined : { command: short, rest: words.slice(1) };
}

function toValue(text: string, types: readonly string[]): unknown {
  if (types.includes('array')) return text.split(',');
  if (types.includes('object')) return JSON.parse(text) as unknown;
  return types.includes('integer') || types.includes('number') ? Number(text) : text;
}

/** Splits a line into words like a shell; supports only single and double quotes. */
function splitWords(line: string): string[] {
  const words = line.match(/(?:'[^']*'|"[^"]*"|[^\s'"])+/g) ?? [];
  return words.map((word) => word.replaceAll(/'([^']*)'|"([^"]*)"/g, '$1$2'));
}
