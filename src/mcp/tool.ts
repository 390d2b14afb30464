import type { JsonObject } from '../base/json.ts';
import type { Context } from '../operation/context.ts';
import type { Effect, JsonOutput, Operation } from '../operation/define.ts';
import type { OfferedCommand } from '../access/offered.operations.ts';

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

export const EXPAND = 'expand';

/** The only tool that isn't an operation. */
export const expandTool: ToolDescription = {
  name: EXPAND,
  description:
    'Show more of an answer that was cut to its budget. ' +
    'Handles stand in `cut`; they are good for a while, for you alone.',
  inputSchema: {
    type: 'object',
    properties: {
      handle: { type: 'string', description: 'as it stands in `cut` of an earlier answer' },
      from: {
        type: 'integer',
        minimum: 0,
        description: 'entries, or characters of a text, to leave out: `next` of the answer before',
      },
      budget: { type: 'integer', description: 'bytes of the result at most' },
    },
    required: ['handle'],
    additionalProperties: false,
  },
  annotations: {
    readOnlyHint: true,
    openWorldHint: false,
  },
};
