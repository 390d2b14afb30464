import type * as z from 'zod';
import type { ErrorCode } from '../base/errors.ts';
import type { Context } from './context.ts';
import type { Need } from '../access/scopes.ts';
import type { Role } from '../base/roles.ts';

/** A function of Ductile, defined once for HTTP, the command line and AI agents. */
export interface Operation {
  /** `<noun>.<action>` */
  readonly name: string;
  readonly summary: string;
  readonly effect: Effect;
  /** The right that a token needs; undefined if every caller may run the operation. */
  readonly scope: Need | undefined | ((context: Context, input: unknown) => Need);
  /** All fields that `scope` reads are in the URL, so rights are checked before a body is read. */
  readonly scopeIn?: 'url';
  /**
   * If the input decides the scope: callers with one of these scopes are offered the operation. `plugin`:
   * callers with any scope for a plugin.
   */
  readonly offeredWith?: 'plugin' | readonly string[];
  /** True for the process and its files, which tenants share: tokens of tenants are refused. */
  readonly isForRoot?: boolean;
  /** The type of the directive that it requests. */
  readonly directive?: string;
  /** The role that the operation's directive requires; undefined if scopes alone decide. */
  readonly role?: Role;
  readonly input: z.ZodObject;
  /**
   * The meaning of null in an optional field. `absent`: the same as leaving it out. `unset`: the field's
   * key is added to `unset`. Default: null is refused.
   */
  readonly nulls?: 'absent' | 'unset';
  /** Fields of the input that are never shown, stored or accepted as command-line arguments. */
  readonly secrets?: readonly string[];
  readonly output: z.ZodObject;
  /** Columns that are left out of the rows of a large result, unless the caller names them. */
  readonly details?: readonly string[];
  readonly errors: readonly ErrorCode[];
  readonly http: HttpSurface | Absent;
  readonly cli: CliSurface | Absent;
  /** The reason why AI agents don't get it as a tool (default: they do). */
  readonly mcp?: Absent;
  /**
   * The part of the system that it needs (default: the whole engine). `ledger`: only the ledger, so without
   * a service nothing else is loaded. `server`: a running service. `files`: the configuration's files on
   * the machine where the command is typed.
   */
  readonly needs?: 'ledger' | 'server' | 'files';
  run(context: Context, input: unknown): Promise<JsonOutput>;
  /** Describes in sentences what `run` would do, and writes nothing. Every operation that writes has it. */
  readonly plan: ((context: Context, input: unknown) => Promise<string[]>) | undefined;
}

export type Effect = 'read' | 'write' | 'destroy';
export type JsonOutput = Readonly<Record<string, unknown>>;

/** Marks a surface that doesn't offer an operation. */
export interface Absent {
  /** The reason. */
  readonly absent: string;
}

/** HTTP endpoint of an operation. Input comes from the path, the query and, if it writes, a JSON body. */
export interface HttpSurface {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** With `:field` for a field of the input; `:field?` at the end is optional. */
  readonly path: string;
  /** Other paths of the same endpoint. */
  readonly also?: readonly string[];
  /** The only field in the body, either bare or in an object; all others are in the query. */
  readonly body?: string;
  /**
   * Returns the object that the response depends on, for an operation without scope and query. As long as it
   * is the same object, the cached response is sent. Undefined: the response isn't cached.
   */
  readonly cachedBy?: (
    context: Context,
    params: Readonly<Record<string, string>>,
  ) => object | undefined;
  /**
   * Programs that can call it without a token. `monitors`: even if discovery needs a token. `scrapers`: where
   * the operator allows that (`metrics: open`).
   */
  readonly openTo?: 'monitors' | 'scrapers';
  /** The response for clients that don't ask for JSON. */
  readonly textForm?: {
    readonly type: string;
    readonly write: (output: JsonOutput) => string;
  };
  /** Accepts a CloudEvent or a batch of them as the body. */
  readonly acceptsCloudEvents?: 'one' | 'many';
  /** True if the output is a signal, which a client can get as a CloudEvent. */
  readonly returnsCloudEvent?: boolean;
  /** True for pages of events. A client that doesn't ask for JSON gets an event stream instead. */
  readonly isStream?: boolean;
  /** True if the response is shown once: it isn't stored for a repeated request with the same key. */
  readonly isSecret?: boolean;
  /** The `Location` header of a created object: a path with `:field` of the output. */
  readonly location?: string;
  /** Returns the status of a response (default: 200). */
  status?(output: JsonOutput): number;
  /** All statuses of responses (default: 200, or 200 and 202 with `status`). */
  readonly statuses?: readonly number[];
}

/** Command of an operation. */
export interface CliSurface {
  readonly positionals?: readonly string[];
  /** True if further words belong to the last positional, as in `ductile why job 0199a1b2`. */
  readonly joins?: boolean;
  /**
   * The documented command, such as `job show` or `config show --active` (default: the operation's name).
   * The name in two words stays as an older spelling.
   */
  readonly command?: string;
  /** Other older spellings, in two words. They work and aren't documented. */
  readonly olderSpellings?: readonly string[];
  /** Other documented commands of the same operation. */
  readonly variants?: readonly CommandVariant[];
  /** Commands that check or do a part of it, listed in its help. */
  readonly parts?: readonly string[];
  /** Flags that differ from the field's name, such as `-n, --limit <count>`. */
  readonly flags?: Readonly<Record<string, string>>;
  /** Defaults of the command line that differ from those of the operation. */
  readonly defaults?: Readonly<Record<string, string>>;
  /** Fields that are file paths, relative to the working directory. */
  readonly paths?: readonly string[];
  readonly examples: readonly string[];
  readonly table?: Table;
  /** True if the noun alone runs this action. */
  readonly isDefault?: boolean;
  /** True if the command has `--watch`, which repeats it. */
  readonly watch?: boolean;
  /** True if the command has `--follow`, which prints new rows until Ctrl-C. */
  readonly follow?: boolean;
  /** A shorter spelling without the noun. */
  readonly alias?: { readonly name: string; readonly positionals?: readonly string[] };
  /** Returns the exit code for a result (default: 0). */
  readonly exitCode?: (output: JsonOutput) => number;
}

/** A second command of an operation, such as `breaker list` beside `breaker show`. */
export interface CommandVariant extends Pick<CliSurface, 'positionals' | 'examples'> {
  readonly command: string;
  readonly summary: string;
}

/** Table that the command line prints for a result. */
export interface Table {
  /** The field of the output that holds the rows. */
  readonly rows: string;
  /** Title and field. Details are printed with `--verbose` only. */
  readonly columns: readonly (readonly [title: string, field: string, detail?: 'detail'])[];
  /** The text for no rows. */
  readonly empty: string;
  /** The text below the table if the result is `truncated`. */
  readonly truncated?: string;
}

/** Operation with the types of its input and output, for clients in TypeScript. */
export interface TypedOperation<Name extends string, Input, Output> extends Operation {
  readonly name: Name;
  /** Never set; it only carries the types. */
  readonly types?: { readonly input: Input; readonly output: Output };
}

type Definition<Name extends string, Input extends z.ZodObject, Output extends z.ZodObject> = Omit<
  Operation,
  'name' | 'input' | 'output' | 'run' | 'plan' | 'effect' | 'scope'
> & {
  readonly name: Name;
  readonly scope: Need | undefined | ((context: Context, input: z.output<Input>) => Need);
  readonly input: Input;
  readonly output: Output;
  run(context: Context, input: z.output<Input>): Promise<z.output<Output>>;
} & (
    | { readonly effect: 'read' }
    | {
        readonly effect: 'write' | 'destroy';
        plan(context: Context, input: z.output<Input>): Promise<string[]>;
      }
  );

/** Checks the types inside a definition. `invoke` checks input at run time, so the list can mix operations. */
export function defineOperation<
  const Name extends string,
  Input extends z.ZodObject,
  Output extends z.ZodObject,
>(
  definition: Definition<Name, Input, Output>,
): TypedOperation<Name, z.input<Input>, z.output<Output>> {
  return { plan: undefined, ...definition } as unknown as ReturnType<
    typeof defineOperation<Name, Input, Output>
  >;
}

/** Lists the statuses of successful responses. */
export function listStatuses(surface: HttpSurface): readonly number[] {
  return surface.statuses ?? (surface.status === undefined ? [200] : [200, 202]);
}

export function isOffered<Surface extends object>(surface: Surface | Absent): surface is Surface {
  return !('absent' in surface);
}
