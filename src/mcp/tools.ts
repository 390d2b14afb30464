import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { isOffered, type Absent, type Operation } from '../operation/define.ts';
import { operations } from '../operation/all.ts';
import type { Tool } from './tool.ts';
import { createHash } from 'node:crypto';
import { limits } from '../base/limits.ts';

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
  throw new DuctileError('INPUT_INVALID', `${found} is a secret, which no agent should handle`, {
    place: found,
    hint: 'Leave it away, and ask a person to set it with the command line.',
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
const budget = { type: 'integer', description: 'bytes of the result at most' };
const fields = { type: 'string', description: 'only these fields, such as id,status' };
const changedSince = {
  type: 'string',
  description: '`seen` of an answer: only what changed since',
};
const dryRun = { type: 'boolean', description: 'say what would happen, and do nothing' };
const apply = { type: 'boolean', description: 'do it (the default)' };
const idempotencyKey = { type: 'string', description: 'asking again with it is asking once' };

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
