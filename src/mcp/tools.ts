/** The tools of an agent: operations, and the commands of plugins. */
import { createHash } from 'node:crypto';
import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { isObject, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { formatDuration } from '../base/quantity.ts';
import { toVisibleText } from '../base/text.ts';
import type { OfferedCommand } from '../operation/offered.ts';
import { runPlugin } from '../job/start.operations.ts';
import { operations } from '../operation/all.ts';
import type { Context } from '../operation/context.ts';
import {
  isOffered,
  type Absent,
  type Effect,
  type JsonOutput,
  type Operation,
} from '../operation/define.ts';
import { moveRefs } from '../operation/schema.ts';

/** A tool as clients of the protocol see it. */
export interface ToolDescription {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: { readonly type: 'object'; readonly [more: string]: unknown };
  readonly annotations: {
    readonly readOnlyHint: boolean;
    readonly destructiveHint?: boolean;
    readonly openWorldHint: boolean;
  };
  readonly [more: string]: unknown;
}

/** Tool that an agent can call. */
export interface Tool {
  readonly description: ToolDescription;
  readonly operation: Operation;
  /** Effect of the tool: a read command is run by an operation that writes. */
  readonly effect: Effect;
  /** Converts the tool's arguments to the operation's input. */
  toInput(given: JsonObject): JsonObject;
}

/** Runs operations: in this process, or on a ledger that is opened for each request. */
export interface ToolBackend {
  readonly principal: Context['principal'];
  commands(): Promise<readonly OfferedCommand[]>;
  run(operation: Operation, input: JsonObject, key: string | undefined): Promise<JsonOutput>;
}

/**
 * Returns where an operation is a tool: `server` everywhere, `files` only beside the files that it
 * works on. For other operations, returns the reason why they aren't tools.
 */
export function toolPlace(operation: Operation): 'server' | 'files' | Absent {
  if (operation.mcp !== undefined) return operation.mcp;
  return isOffered(operation.http) ? 'server' : 'files';
}

/** True if the result is shown once and never stored. */
export function isShownOnce({ http }: Operation): boolean {
  return isOffered(http) && http.isSecret === true;
}

let tools: ReadonlyMap<string, Tool> | undefined;

/** Returns every operation that is a tool, by the tool's name. */
export function operationTools(): ReadonlyMap<string, Tool> {
  tools ??= new Map(
    operations
      .filter((operation) => typeof toolPlace(operation) === 'string')
      .map((operation) => [operationToolName(operation.name), toTool(operation)]),
  );
  return tools;
}

function toTool(operation: Operation): Tool {
  const { name, summary, effect, input, secrets = [] } = operation;
  const { $schema: _, ...schema } = z.toJSONSchema(input, { io: 'input', unrepresentable: 'any' });
  const fieldsOfInput = Object.entries(schema.properties ?? {}).filter(
    ([field]) => !secrets.includes(field),
  );
  const properties = { ...Object.fromEntries(fieldsOfInput), ...ownFields(operation) };
  return {
    description: {
      name: operationToolName(name),
      description: summary,
      inputSchema: { ...schema, type: 'object', properties },
      annotations: {
        readOnlyHint: effect === 'read',
        ...(effect === 'read' ? {} : { destructiveHint: effect === 'destroy' }),
        openWorldHint: false,
      },
    },
    operation,
    effect,
    toInput: (given) => withoutSecrets(given, secrets),
  };
}

/** Refuses secrets: they would stay in the model's context and in its operator's logs. */
function withoutSecrets(given: JsonObject, secrets: readonly string[]): JsonObject {
  const found = secrets.find((field) => field in given);
  if (found === undefined) return given;
  throw new DuctileError('INPUT_INVALID', `${found} is a secret, which agents cannot set`, {
    place: found,
    hint: 'Remove it, and ask a person to set it with the command line.',
  });
}

/** Describes what each tool accepts besides the input of its operation. */
export function ownFields({ effect, input }: Pick<Operation, 'effect' | 'input'>): OwnFields {
  if (effect === 'read') return { budget, fields, changed_since: changedSince };
  const own = { dry_run: dryRun, apply, idempotency_key: idempotencyKey };
  const open = Object.entries(own).filter(([field]) => !(field in input.shape));
  return { budget, ...Object.fromEntries(open) };
}

type OwnFields = Record<string, JsonObject>;

/** These texts repeat in a hundred tools, so they are short; the server's instructions say more. */
const budget = { type: 'integer', description: 'maximum bytes of the result' };
const fields = { type: 'string', description: 'only these fields, such as id,status' };
const changedSince = {
  type: 'string',
  description: '`seen` of an earlier result: return only changes',
};
const dryRun = { type: 'boolean', description: 'return the plan and change nothing' };
const apply = { type: 'boolean', description: 'make the change (the default)' };
const idempotencyKey = { type: 'string', description: 'repeated calls with one key run once' };

/** `run.retry-from` is the tool `run_retry_from`. */
export function operationToolName(operation: string): string {
  return operation.replaceAll(/[.-]/g, '_');
}

const SUFFIX_CHARS = 7;

/**
 * Names a command's tool `run_<plugin>_<command>`. The name depends on nothing else, so it stays
 * when plugins come and go. A name that is too long, ambiguous or has other characters gets a
 * digest at its end.
 */
export function commandToolName(
  plugin: string,
  command: string,
  isTaken: (name: string) => boolean,
): string {
  const plain = `run_${plugin}_${command}`;
  const isPlain =
    /^[\w-]+$/.test(plain) && !plugin.includes('_') && plain.length <= limits.toolNameCharsMax;
  if (isPlain && !isTaken(plain)) return plain;
  const digest = createHash('sha256').update(`${plugin}\n${command}`).digest('hex');
  const stem = plain.replaceAll(/[^\w-]/g, '_').slice(0, limits.toolNameCharsMax - SUFFIX_CHARS);
  return `${stem}_${digest.slice(0, SUFFIX_CHARS - 1)}`;
}

/** Maps the names of tools to plugin commands. */
export function nameCommands(
  commands: readonly OfferedCommand[],
): ReadonlyMap<string, OfferedCommand> {
  const isTaken = (name: string): boolean => operationTools().has(name);
  return new Map(
    commands.map((offered) => [commandToolName(offered.plugin, offered.command, isTaken), offered]),
  );
}

export function commandTool(name: string, offered: OfferedCommand): Tool {
  const { plugin, command, type } = offered;
  const isRead = type === 'read';
  return {
    description: {
      name,
      description: describeCommand(offered),
      inputSchema: {
        type: 'object',
        properties: { payload: payloadSchema(offered), wait, ...ownFields(runPlugin) },
        additionalProperties: false,
      },
      annotations: {
        readOnlyHint: isRead,
        // Only the plugin's author knows, so the worst is assumed.
        ...(isRead ? {} : { destructiveHint: true }),
        openWorldHint: true,
      },
    },
    operation: runPlugin,
    effect: type,
    toInput: ({ wait: waitFor = WAIT, ...given }) => ({ ...given, wait: waitFor, plugin, command }),
  };
}

const WAIT = formatDuration(limits.toolWaitMs);

const wait = {
  anyOf: [{ type: 'boolean' }, { type: 'string' }],
  description: `longest wait for the end of the job, such as 2m (default: ${WAIT}); false: no wait`,
};

function describeCommand({ plugin, command, type, description }: OfferedCommand): string {
  const effect = type === 'read' ? 'only reads' : 'may change things';
  const own = `Run the command ${command} of the plugin ${plugin} as a job. It ${effect}.`;
  if (description === undefined) return own;
  return `${own} The plugin describes it as ${JSON.stringify(cut(description))}.`;
}

function payloadSchema({ inputSchema }: OfferedCommand): JsonObject {
  if (inputSchema === undefined) return { type: 'object', description: 'payload of the command' };
  return shortenTexts(moveRefs(inputSchema, '#/properties/payload')) as JsonObject;
}

/** Shortens the author's descriptions and makes invisible characters visible. */
function shortenTexts(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(shortenTexts);
  if (!isObject(schema)) return schema;
  return Object.fromEntries(
    Object.entries(schema).map(([key, value]) => {
      const isText = (key === 'description' || key === 'title') && typeof value === 'string';
      return [key, isText ? cut(value) : shortenTexts(value)];
    }),
  );
}

function cut(words: string): string {
  const shown = toVisibleText(words);
  if (shown.length <= limits.toolDescriptionCharsMax) return shown;
  return `${shown.slice(0, limits.toolDescriptionCharsMax)}…`;
}

export const EXPAND = 'expand';

/** The only tool that isn't an operation. */
export const expandTool: ToolDescription = {
  name: EXPAND,
  description:
    'Show more of a result that was cut to its budget. ' +
    'Handles are listed in `cut`. They expire after a while, and only you can use them.',
  inputSchema: {
    type: 'object',
    properties: {
      handle: { type: 'string', description: 'handle from `cut` of an earlier result' },
      from: {
        type: 'integer',
        minimum: 0,
        description: 'entries, or characters of a text, to skip: `next` of the previous result',
      },
      budget: { type: 'integer', description: 'maximum bytes of the result' },
    },
    required: ['handle'],
    additionalProperties: false,
  },
  annotations: {
    readOnlyHint: true,
    openWorldHint: false,
  },
};
