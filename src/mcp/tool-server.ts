import { DuctileError, toDuctileError } from '../base/errors.ts';
import { compact, isObject, type JsonObject, toCanonicalJson } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import type { Effect, JsonOutput, Operation } from '../operation/define.ts';
import { mayUse, type OfferedCommand } from '../operation/offered.ts';
import { compactResult } from '../operation/result/compact-result.ts';
import { describeResult } from '../operation/schema.ts';
import {
  hasHandle,
  formatResult,
  formatError,
  formatMore,
  type ResultDraft,
  type ResultContext,
  type ToolResult,
  formatPage,
  type FittingPageRequest,
} from './tool-result.ts';
import {
  commandTool,
  nameCommands,
  EXPAND,
  expandTool,
  type ToolBackend,
  type Tool,
  type ToolDescription,
  isShownOnce,
  operationTools,
  toolPlace,
} from './tools.ts';
import type { ResultStore } from './result-store.ts';

/**
 * Lists and calls the tools of an agent. A failed call returns an error result instead of throwing.
 */
export interface ToolServer {
  list(): Promise<readonly ToolDescription[]>;
  call(name: string, given: unknown): Promise<ToolResult>;
  /** Formats an error that happened before a tool was called. */
  fail(error: DuctileError): ToolResult;
  /** True if the handle belongs to a result of this server. */
  hasResult(given: unknown): boolean;
}

interface ToolServerOptions {
  readonly backend: ToolBackend;
  readonly store: ResultStore;
  readonly selection: ToolSelection;
  /** Tools that are offered: those of a service, those that work on files, or both. */
  readonly places: readonly ('server' | 'files')[];
}

/** Part of the permitted tools that a connection offers. */
export interface ToolSelection {
  readonly isReadOnly: boolean;
  /** Only tools about these nouns (default: all). */
  readonly nouns?: readonly string[] | undefined;
}

export function createToolServer(options: ToolServerOptions): ToolServer {
  const { store, backend } = options;
  const { tenant = '', actor } = backend.principal;
  const caller = `${tenant} ${actor}`;
  const defaults: ResultContext = { store, caller, budget: limits.resultBytes };
  return {
    async list() {
      const commands = [...(await listCommandTools(options))].map((named) => commandTool(...named));
      const tools = [...listOperationTools(options), ...commands];
      return [...tools.map(({ description }) => description), expandTool];
    },
    async call(name, given = {}) {
      let resultContext = defaults;
      try {
        if (!isObject(given)) throw invalid('arguments', 'must be an object');
        const { budget, ...rest } = given;
        resultContext = { ...resultContext, budget: readBudget(budget) };
        if (name === EXPAND) return expandResult(resultContext, rest);
        return await callTool(await findTool(options, name), rest, { backend, resultContext });
      } catch (thrown) {
        return formatError(resultContext, toDuctileError(thrown));
      }
    },
    fail: (error) => formatError(defaults, error),
    hasResult: (given) => isObject(given) && hasHandle(defaults, given['handle']),
  };
}

function listOperationTools({ backend, places, selection }: ToolServerOptions): Tool[] {
  return [...operationTools().values()].filter(({ operation, effect }) => {
    const place = toolPlace(operation);
    const [noun = ''] = operation.name.split('.');
    return (
      typeof place === 'string' &&
      places.includes(place) &&
      mayUse(operation, backend.principal) &&
      isSelected(selection, noun, effect)
    );
  });
}

async function listCommandTools(
  options: ToolServerOptions,
): Promise<ReadonlyMap<string, OfferedCommand>> {
  const { backend, places, selection } = options;
  if (!places.includes('server')) return new Map();
  const commands = (await backend.commands()).filter(({ type }) =>
    isSelected(selection, 'plugin', type),
  );
  return nameCommands(commands);
}

function isSelected({ isReadOnly, nouns }: ToolSelection, noun: string, effect: Effect): boolean {
  return (nouns === undefined || nouns.includes(noun)) && (!isReadOnly || effect === 'read');
}

/** Finds a tool by name. The operation itself checks the caller's rights. */
async function findTool(options: ToolServerOptions, name: string): Promise<Tool> {
  const tool = operationTools().get(name) ?? (await findCommand(options, name));
  const place = tool === undefined ? undefined : toolPlace(tool.operation);
  if (tool === undefined || typeof place !== 'string' || !options.places.includes(place)) {
    throw new DuctileError('TOOL_NOT_FOUND', 'there is no tool with this name', { place: 'name' });
  }
  const [noun = ''] = tool.operation.name.split('.');
  const { nouns } = options.selection;
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
  if (options.selection.isReadOnly && tool.effect !== 'read') {
    throw new DuctileError('FORBIDDEN', 'this connection offers only tools that change nothing', {
      hint: 'Connect without `readonly`.',
    });
  }
  return tool;
}

async function findCommand(options: ToolServerOptions, name: string): Promise<Tool | undefined> {
  const command = (await listCommandTools(options)).get(name);
  return command === undefined ? undefined : commandTool(name, command);
}

interface ToolCall {
  readonly backend: ToolBackend;
  readonly resultContext: ResultContext;
}

async function callTool(
  tool: Tool,
  given: JsonObject,
  { backend, resultContext }: ToolCall,
): Promise<ToolResult> {
  const { operation } = tool;
  if (operation.effect === 'read') {
    const { rest, text: since } = splitText(given, 'changed_since');
    const isPicked = rest['fields'] !== undefined;
    const run = async (input: JsonObject): Promise<JsonOutput> => {
      const output = await backend.run(operation, input, undefined);
      // Fields that the caller named are kept, even if they are null.
      return isPicked ? output : compactOutput(operation, output);
    };
    const input = tool.toInput(rest);
    const page = await run(input);
    const shape = isPicked ? {} : describeResult(operation);
    return formatComparable(resultContext, { operation, input, page, run }, { since, shape });
  }
  const hasOwnKey = 'idempotency_key' in operation.input.shape;
  const { rest, text: key } = hasOwnKey
    ? { rest: given, text: undefined }
    : splitText(given, 'idempotency_key');
  const value = compactOutput(operation, await backend.run(operation, tool.toInput(rest), key));
  return formatResult(resultContext, { value, isSecret: isShownOnce(operation) });
}

function compactOutput(operation: Operation, output: JsonOutput): JsonOutput {
  return compactResult(output, new Set(describeResult(operation).data));
}

/** Splits an argument of the tool that its operation doesn't know from the others. */
function splitText(
  given: JsonObject,
  field: string,
): { rest: JsonObject; text: string | undefined } {
  const { [field]: text, ...rest } = given;
  if (text === undefined || typeof text === 'string') return { rest, text };
  throw invalid(field, 'must be text');
}

/** Formats a result that a later one can be compared with. */
async function formatComparable(
  resultContext: ResultContext,
  request: FittingPageRequest,
  { since, shape }: Pick<ResultDraft, 'shape'> & { readonly since: string | undefined },
): Promise<ToolResult> {
  const { store, caller } = resultContext;
  const { page } = request;
  const text = JSON.stringify(page);
  const seen = store.nameOf(caller, text);
  const before = since === undefined ? undefined : store.find(caller, since);
  if (before === undefined) {
    const beside = { seen, ...(since === undefined ? {} : { changed_since: 'no longer stored' }) };
    return formatPage(resultContext, request, {
      beside,
      ...compact({ shape }),
    });
  }
  store.save(caller, seen, text);
  const value =
    before === text ? { unchanged: true } : compareResults(parseJson(before) as JsonOutput, page);
  return formatResult(resultContext, { value, isSecret: false, beside: { seen } });
}

function expandResult(resultContext: ResultContext, { handle, from = 0 }: JsonObject): ToolResult {
  if (typeof handle !== 'string') {
    throw invalid('handle', 'must be a handle from an earlier result');
  }
  if (typeof from !== 'number' || !Number.isSafeInteger(from) || from < 0) {
    throw invalid('from', 'must be a whole number, 0 or more');
  }
  return formatMore(resultContext, handle, from);
}

function readBudget(budget: unknown): number {
  if (budget === undefined) return limits.resultBytes;
  const { toolAnswerCharsMin: min, toolAnswerCharsMax: max } = limits;
  const isWhole = typeof budget === 'number' && Number.isInteger(budget);
  if (isWhole && budget >= min && budget <= max) return budget;
  throw invalid('budget', `must be a whole number from ${min} to ${max}`);
}

function invalid(place: string, message: string): DuctileError {
  return new DuctileError('INPUT_INVALID', `${place} ${message}`, { place });
}

/** Changes of a list between two results. */
interface ListChange {
  readonly added: readonly unknown[];
  readonly changed: readonly unknown[];
  /** Identities of the removed entries. */
  readonly gone: readonly string[];
  readonly same: number;
}

interface ResultDifference {
  /** By field: the changed rows of a list, or the whole of another value. */
  readonly changed: Readonly<Record<string, unknown>>;
  /** Removed fields. */
  readonly gone: readonly string[];
}

/** Compares two results and leaves out what is equal. */
export function compareResults(before: JsonOutput, after: JsonOutput): ResultDifference {
  const changed: Record<string, unknown> = {};
  for (const [field, value] of Object.entries(after)) {
    const old = before[field];
    if (isSame(old, value)) continue;
    changed[field] = compareLists(old, value) ?? value;
  }
  return { changed, gone: Object.keys(before).filter((field) => !(field in after)) };
}

type ResultRow = Readonly<Record<string, unknown>>;

function compareLists(before: unknown, after: unknown): ListChange | undefined {
  if (!isRows(before) || !isRows(after)) return undefined;
  const identify = identityOf(before, after);
  if (identify === undefined) return undefined;
  const old = new Map(before.map((row) => [identify(row), row]));
  const now = new Set(after.map(identify));
  const known = after.filter((row) => old.has(identify(row)));
  const changed = known.filter((row) => !isSame(old.get(identify(row)), row));
  return {
    added: after.filter((row) => !old.has(identify(row))),
    changed,
    gone: [...old.keys()].filter((id) => !now.has(id)),
    same: known.length - changed.length,
  };
}

/** Finds the identity of rows: their first field, or as many as are needed to distinguish them. */
function identityOf(before: readonly ResultRow[], after: readonly ResultRow[]) {
  const names = Object.keys(after[0] ?? before[0] ?? {}).slice(0, NAMES_MAX);
  for (let count = 1; count <= names.length; count += 1) {
    const used = names.slice(0, count);
    const identify = (row: ResultRow): string => used.map((name) => String(row[name])).join(' ');
    if ([before, after].every((rows) => new Set(rows.map(identify)).size === rows.length)) {
      return identify;
    }
  }
  return undefined;
}

const NAMES_MAX = 3;

function isRows(value: unknown): value is readonly ResultRow[] {
  return Array.isArray(value) && value.every(isObject);
}

function isSame(a: unknown, b: unknown): boolean {
  return a === b || (a !== undefined && toCanonicalJson(a) === toCanonicalJson(b));
}
