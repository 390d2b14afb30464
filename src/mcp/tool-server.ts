import { DuctileError, toDuctileError } from '../base/errors.ts';
import { isObject, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import type { Effect, JsonOutput, Operation } from '../operation/define.ts';
import { mayUse, type OfferedCommand } from '../access/offered.operations.ts';
import { compactResult } from '../operation/result/compact-result.ts';
import { describeResult } from '../operation/result/result-shape.ts';
import {
  hasHandle,
  tell,
  tellError,
  tellMore,
  type Said,
  type Telling,
  type ToolAnswer,
} from './tool-result.ts';
import { commandTool, nameCommands } from './command-tools.ts';
import { difference } from './difference.ts';
import { EXPAND, expandTool } from './expand-tool.ts';
import type { Kept } from './result-store.ts';
import { isShownOnce, operationTools, toolPlace } from './operation-tools.ts';
import { tellPage, type AskedPage } from './page.ts';
import type { Backend, Tool, ToolDescription } from './tool.ts';

/** Where an agent finds its tools and gets its answers; nothing that it asks throws. */
export interface Desk {
  list(): Promise<readonly ToolDescription[]>;
  call(name: string, given: unknown): Promise<ToolAnswer>;
  /** An error as it is told, where something went wrong before a tool was asked. */
  fail(error: DuctileError): ToolAnswer;
  /** Whether something is asked about an answer that was given here. */
  holds(given: unknown): boolean;
}

export interface DeskOptions {
  readonly backend: Backend;
  readonly kept: Kept;
  readonly wish: Wish;
  /** Which tools are had here: those of a server, those that work on files, or both. */
  readonly places: readonly ('server' | 'files')[];
}

/** What somebody wants to see of all that they may use. */
export interface Wish {
  readonly isReadOnly: boolean;
  /** Only tools about these; all unless given. */
  readonly nouns?: readonly string[] | undefined;
}

export function openDesk(options: DeskOptions): Desk {
  const { kept, backend } = options;
  const { tenant = '', actor } = backend.principal;
  const caller = `${tenant} ${actor}`;
  const usual: Telling = { kept, caller, budget: limits.resultBytes };
  return {
    async list() {
      const commands = [...(await offeredCommands(options))].map((named) => commandTool(...named));
      const tools = [...offeredOperations(options), ...commands];
      return [...tools.map(({ description }) => description), expandTool];
    },
    async call(name, given = {}) {
      let telling = usual;
      try {
        if (!isObject(given)) throw invalid('arguments', 'must be an object');
        const { budget, ...rest } = given;
        telling = { ...telling, budget: readBudget(budget) };
        if (name === EXPAND) return expand(telling, rest);
        return await use(await findTool(options, name), rest, { backend, telling });
      } catch (thrown) {
        return tellError(telling, toDuctileError(thrown));
      }
    },
    fail: (error) => tellError(usual, error),
    holds: (given) => isObject(given) && hasHandle(usual, given['handle']),
  };
}

function offeredOperations({ backend, places, wish }: DeskOptions): Tool[] {
  return [...operationTools().values()].filter(({ operation, effect }) => {
    const place = toolPlace(operation);
    const [noun = ''] = operation.name.split('.');
    return (
      typeof place === 'string' &&
      places.includes(place) &&
      mayUse(operation, backend.principal) &&
      isWished(wish, noun, effect)
    );
  });
}

async function offeredCommands(options: DeskOptions): Promise<ReadonlyMap<string, OfferedCommand>> {
  const { backend, places, wish } = options;
  if (!places.includes('server')) return new Map();
  const commands = (await backend.commands()).filter(({ type }) => isWished(wish, 'plugin', type));
  return nameCommands(commands);
}

function isWished({ isReadOnly, nouns }: Wish, noun: string, effect: Effect): boolean {
  return (nouns === undefined || nouns.includes(noun)) && (!isReadOnly || effect === 'read');
}

/** What may be used is decided where it is used; here it is only whether there is such a tool. */
async function findTool(options: DeskOptions, name: string): Promise<Tool> {
  const tool = operationTools().get(name) ?? (await findCommand(options, name));
  const place = tool === undefined ? undefined : toolPlace(tool.operation);
  if (tool === undefined || typeof place !== 'string' || !options.places.includes(place)) {
    throw new DuctileError('TOOL_NOT_FOUND', 'there is no tool of this name', { place: 'name' });
  }
  const [noun = ''] = tool.operation.name.split('.');
  const { nouns } = options.wish;
  if (nouns !== undefined && !nouns.includes(noun)) {
    throw new DuctileError(
      'FORBIDDEN',
      `this connection offers only tools about ${nouns.join(', ')}`,
      {
        place: 'only',
        hint: `Connect without \`only\`, or with ${noun} in it.`,
      },
    );
  }
  if (options.wish.isReadOnly && tool.effect !== 'read') {
    throw new DuctileError('FORBIDDEN', 'only tools that change nothing are offered here', {
      hint: 'Ask for a connection that is not read-only.',
    });
  }
  return tool;
}

async function findCommand(options: DeskOptions, name: string): Promise<Tool | undefined> {
  const command = (await offeredCommands(options)).get(name);
  return command === undefined ? undefined : commandTool(name, command);
}

interface Use {
  readonly backend: Backend;
  readonly telling: Telling;
}

async function use(tool: Tool, given: JsonObject, { backend, telling }: Use): Promise<ToolAnswer> {
  const { operation } = tool;
  if (operation.effect === 'read') {
    const { rest, text: since } = take(given, 'changed_since');
    const isPicked = rest['fields'] !== undefined;
    const run = async (input: JsonObject): Promise<JsonOutput> => {
      const output = await backend.run(operation, input, undefined);
      // A field that the caller named is there, even if it is null.
      return isPicked ? output : compact(operation, output);
    };
    const input = tool.toInput(rest);
    const page = await run(input);
    const shape = isPicked ? {} : describeResult(operation);
    return tellSeen(telling, { operation, input, page, run }, { since, shape });
  }
  const hasOwnKey = 'idempotency_key' in operation.input.shape;
  const { rest, text: key } = hasOwnKey
    ? { rest: given, text: undefined }
    : take(given, 'idempotency_key');
  const value = compact(operation, await backend.run(operation, tool.toInput(rest), key));
  return tell(telling, { value, isSecret: isShownOnce(operation) });
}

function compact(operation: Operation, output: JsonOutput): JsonOutput {
  return compactResult(output, new Set(describeResult(operation).data));
}

/** What is the tool's own and not its operation's. */
function take(given: JsonObject, field: string): { rest: JsonObject; text: string | undefined } {
  const { [field]: text, ...rest } = given;
  if (text === undefined || typeof text === 'string') return { rest, text };
  throw invalid(field, 'must be text');
}

/** An answer that the next one can be compared with. */
async function tellSeen(
  telling: Telling,
  asked: AskedPage,
  { since, shape }: Pick<Said, 'shape'> & { readonly since: string | undefined },
): Promise<ToolAnswer> {
  const { kept, caller } = telling;
  const { page } = asked;
  const text = JSON.stringify(page);
  const seen = kept.nameOf(caller, text);
  const before = since === undefined ? undefined : kept.find(caller, since);
  if (before === undefined) {
    const beside = { seen, ...(since === undefined ? {} : { changed_since: 'not kept any more' }) };
    return tellPage(telling, asked, { beside, ...(shape === undefined ? {} : { shape }) });
  }
  kept.keep(caller, seen, text);
  const value =
    before === text ? { unchanged: true } : difference(parseJson(before) as JsonOutput, page);
  return tell(telling, { value, isSecret: false, beside: { seen } });
}

function expand(telling: Telling, { handle, from = 0 }: JsonObject): ToolAnswer {
  if (typeof handle !== 'string') throw invalid('handle', 'must be a handle of an earlier answer');
  if (typeof from !== 'number' || !Number.isSafeInteger(from) || from < 0) {
    throw invalid('from', 'must be a whole number, 0 or more');
  }
  return tellMore(telling, handle, from);
}

function readBudget(budget: unknown): number {
  if (budget === undefined) return limits.resultBytes;
  const { toolAnswerCharsMin: min, toolAnswerCharsMax: max } = limits;
  const isSound = typeof budget === 'number' && Number.isInteger(budget);
  if (isSound && budget >= min && budget <= max) return budget;
  throw invalid('budget', `must be a whole number from ${min} to ${max}`);
}

function invalid(place: string, message: string): DuctileError {
  return new DuctileError('INPUT_INVALID', `${place} ${message}`, { place });
}
