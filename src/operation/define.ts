import type * as z from 'zod';
import type { ErrorCode } from '../base/errors.ts';
import type { Context } from './context.ts';
import type { Need } from '../access/scopes.ts';

/** Something that can be asked of Ductile, once for all surfaces. */
export interface Operation {
  /** `<noun>.<action>` */
  readonly name: string;
  readonly summary: string;
  readonly effect: Effect;
  /** What a token must allow; undefined when the operation is open to everybody. */
  readonly scope: Need | undefined | ((context: Context, input: unknown) => Need);
  /** The fields that `scope` looks at are all in the URL, so rights are checked before a body is read. */
  readonly scopeIn?: 'url';
  /** If the input decides the scope: the scopes of which one suffices to be offered it; `plugin`: any for a plugin. */
  readonly offeredWith?: 'plugin' | readonly string[];
  /** It is about the process or its files, which tenants share: no token of a tenant may ask it. */
  readonly isForRoot?: boolean;
  readonly input: z.ZodObject;
  /** What null in an optional field means: nothing was said, or its key is one of `unset`. Refused unless told. */
  readonly nulls?: 'absent' | 'unset';
  /** Fields of the input that are shown and kept nowhere; on the command line they are no arguments. */
  readonly secrets?: readonly string[];
  readonly output: z.ZodObject;
  /** Columns of the rows that a result leaves out when it is too large, unless they are named. */
  readonly details?: readonly string[];
  readonly errors: readonly ErrorCode[];
  readonly http: HttpSurface | Absent;
  readonly cli: CliSurface | Absent;
  /** Why it is no tool of agents; without this it is one. */
  readonly mcp?: Absent;
  /**
   * What it cannot do without, if that is not the whole engine. `ledger`: it looks at nothing else, so
   * without a server nothing else is loaded for it. `server`: it is about a process that runs.
   * `files`: it works on the configuration's files, there where the command is given.
   */
  readonly needs?: 'ledger' | 'server' | 'files';
  run(context: Context, input: unknown): Promise<JsonOutput>;
  /** What would happen, in sentences; it writes nothing. Every operation that writes has one. */
  readonly plan: ((context: Context, input: unknown) => Promise<string[]>) | undefined;
}

export type Effect = 'read' | 'write' | 'destroy';
export type JsonOutput = Readonly<Record<string, unknown>>;

/** Why a surface does not offer an operation. */
export interface Absent {
  readonly absent: string;
}

/** Input comes from the path, the query and, unless it only reads, from a JSON body. */
export interface HttpSurface {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** With `:field` for input that stands in the path; `:field?` at the end may be left out. */
  readonly path: string;
  /** Older or other names of the same place. */
  readonly also?: readonly string[];
  /** The one field that is the body, wrapped in its name or bare; all others are in the query. */
  readonly body?: string;
  /**
   * The object that the response depends on, for an operation without scope and query: while this is the same
   * object, the same bytes are sent again. Undefined when the response may be another each time.
   */
  readonly cachedBy?: (
    context: Context,
    params: Readonly<Record<string, string>>,
  ) => object | undefined;
  /** Answers also when discovery needs a token: it is for monitors, which have none. */
  readonly isForMonitors?: boolean;
  /** Answers also without a token where the operator opened it to monitors. */
  readonly isForScrapers?: boolean;
  /** The answer as text, for clients that do not ask for JSON. */
  readonly textForm?: {
    readonly type: string;
    readonly write: (output: JsonOutput) => string;
  };
  /** A CloudEvent may come in the place of the body, or a batch of them. */
  readonly takesCloudEvents?: 'one' | 'many';
  /** The answer in another form, for a client that accepts only that media type. */
  readonly otherForms?: Readonly<Record<string, (output: JsonOutput) => JsonOutput>>;
  /** The answer with a part of it in headers, for a client that itself speaks so. */
  readonly binaryForm?: (output: JsonOutput) => {
    readonly headers: readonly (readonly [name: string, value: string])[];
    readonly data: unknown;
  };
  /** Pages of events, which a client that does not ask for JSON gets one by one as they come. */
  readonly isStream?: boolean;
  /** The answer is shown once: it is not kept for whoever asks again with the same key. */
  readonly isSecret?: boolean;
  /** Where the thing that was made or accepted is, for `Location`: a path with `:field` of the output. */
  readonly location?: string;
  /** 200 unless the answer says something else. */
  status?(output: JsonOutput): number;
  /** All that it may say: 200, or 200 and 202 where it says anything, unless they are named here. */
  readonly statuses?: readonly number[];
}

export interface CliSurface {
  readonly positionals?: readonly string[];
  /** Further words belong to the last positional, as in `ductile why job 0199a1b2`. */
  readonly joins?: boolean;
  /** Older or other names of the same action. */
  readonly also?: readonly string[];
  /** Flags that are not simply the field's name, such as `-n, --limit <count>`. */
  readonly flags?: Readonly<Record<string, string>>;
  /** What the command line assumes where the operation itself assumes something else. */
  readonly defaults?: Readonly<Record<string, string>>;
  /** Fields that are paths of files, relative to where the command is given. */
  readonly paths?: readonly string[];
  readonly examples: readonly string[];
  readonly table?: Table;
  /** Done when only the noun is given. */
  readonly isDefault?: boolean;
  /** A list that people like to look at again and again. */
  readonly watch?: boolean;
  /** Pages that go on after their cursor: `--follow` shows what comes, until Ctrl-C. */
  readonly follow?: boolean;
  /** A shorter spelling without the noun. */
  readonly alias?: { readonly name: string; readonly positionals?: readonly string[] };
  /** 0 unless the answer is bad news. */
  readonly exitCode?: (output: JsonOutput) => number;
}

export interface Table {
  /** The field of the output that holds the rows. */
  readonly rows: string;
  /** Title and field; those marked as details show with `--verbose` only. */
  readonly columns: readonly (readonly [title: string, field: string, detail?: 'detail'])[];
  readonly empty: string;
  /** What is said below it when the answer says that it is `truncated`. */
  readonly truncated?: string;
}

/** An operation whose type remembers what it takes and answers, for clients that are written in TypeScript. */
export interface TypedOperation<Name extends string, Input, Output> extends Operation {
  readonly name: Name;
  /** It is never there: only types look at it. */
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

/** Types the definition from within; the list holds operations of all types, checked by `invoke`. */
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

/** What an operation may be answered with when it has not failed. */
export function listStatuses(surface: HttpSurface): readonly number[] {
  return surface.statuses ?? (surface.status === undefined ? [200] : [200, 202]);
}

export function isOffered<Surface extends object>(surface: Surface | Absent): surface is Surface {
  return !('absent' in surface);
}
