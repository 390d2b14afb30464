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

/** Something that an agent can do. */
export interface Tool {
  readonly description: ToolDescription;
  readonly operation: Operation;
  /** Of this tool: a command that only reads is run by an operation that writes. */
  readonly effect: Effect;
  /** The operation's input, from what the tool was given. */
  toInput(given: JsonObject): JsonObject;
}

/** What answers: the engine of this process, or a ledger that is opened for each request. */
export interface Backend {
  readonly principal: Context['principal'];
  commands(): Promise<readonly OfferedCommand[]>;
  run(operation: Operation, input: JsonObject, key: string | undefined): Promise<JsonOutput>;
}
