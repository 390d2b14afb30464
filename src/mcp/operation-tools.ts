import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { isOffered, type Absent, type Operation } from '../operation/define.ts';
import { operations } from '../operation/all.ts';
import { operationToolName } from './names.ts';
import type { Tool } from './tool.ts';

/**
 * Where an operation is a tool: `server` everywhere, `files` only beside the files that it works on,
 * or why it is none.
 */
export function toolPlace(operation: Operation): 'server' | 'files' | Absent {
  if (operation.mcp !== undefined) return operation.mcp;
  return isOffered(operation.http) ? 'server' : 'files';
}

/** What it answers is shown once, and kept nowhere. */
export function isShownOnce({ http }: Operation): boolean {
  return isOffered(http) && http.isSecret === true;
}

let made: ReadonlyMap<string, Tool> | undefined;

/** Every operation that is a tool, by the tool's name. */
export function operationTools(): ReadonlyMap<string, Tool> {
  made ??= new Map(
    operations
      .filter((operation) => typeof toolPlace(operation) === 'string')
      .map((operation) => [operationToolName(operation.name), toTool(operation)]),
  );
  return made;
}

function toTool(operation: Operation): Tool {
  const { name, summary, effect, input, secrets = [] } = operation;
  const { $schema: _, ...schema } = z.toJSONSchema(input, { io: 'input', unrepresentable: 'any' });
  const open = Object.entries(schema.properties ?? {}).filter(
    ([field]) => !secrets.includes(field),
  );
  const properties = { ...Object.fromEntries(open), ...ownFields(operation) };
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

/** What a model was told stays in its context, and in the records of whoever runs it. */
function withoutSecrets(given: JsonObject, secrets: readonly string[]): JsonObject {
  const found = secrets.find((field) => field in given);
  if (found === undefined) return given;
  throw new DuctileError('INPUT_INVALID', `${found} is a secret, which no agent should handle`, {
    place: found,
    hint: 'Leave it away, and ask a person to set it with the command line.',
  });
}

/** What each tool takes beside the input of its operation. */
export function ownFields({ effect, input }: Pick<Operation, 'effect' | 'input'>): OwnFields {
  if (effect === 'read') return { budget, fields, changed_since: changedSince };
  const own = { dry_run: dryRun, apply, idempotency_key: idempotencyKey };
  const open = Object.entries(own).filter(([field]) => !(field in input.shape));
  return { budget, ...Object.fromEntries(open) };
}

type OwnFields = Record<string, JsonObject>;

/** Said once for each of a hundred tools, so in few words; the greeting says more. */
const budget = { type: 'integer', description: 'bytes of the result at most' };
const fields = { type: 'string', description: 'only these fields, such as id,status' };
const changedSince = {
  type: 'string',
  description: '`seen` of an answer: only what changed since',
};
const dryRun = { type: 'boolean', description: 'say what would happen, and do nothing' };
const apply = { type: 'boolean', description: 'do it (the default)' };
const idempotencyKey = { type: 'string', description: 'asking again with it is asking once' };
