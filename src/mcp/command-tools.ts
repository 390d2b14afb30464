import { formatDuration } from '../base/quantity.ts';
import { isObject, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { toVisibleText } from '../base/text.ts';
import { moveRefs } from '../operation/schema.ts';
import type { OfferedCommand } from '../access/offered.operations.ts';
import { runPlugin } from '../job/start.operations.ts';
import { commandToolName, operationTools, ownFields } from './tools.ts';
import type { Tool } from './tool.ts';

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
      description: describe(offered),
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
  description: `how long to wait for the end of the job (${WAIT}), such as 2m; false: not at all`,
};

function describe({ plugin, command, type, description }: OfferedCommand): string {
  const effect = type === 'read' ? 'only reads' : 'may change things';
  const own = `Run the command ${command} of the plugin ${plugin} as a job; it ${effect}.`;
  if (description === undefined) return own;
  return `${own} The plugin describes it as ${JSON.stringify(cut(description))}.`;
}

function payloadSchema({ inputSchema }: OfferedCommand): JsonObject {
  if (inputSchema === undefined)
    return { type: 'object', description: 'what the command is given' };
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
