import * as z from 'zod';
import type { ErrorCode } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import type { DirectiveDefinition } from '../directive/define.service.ts';
import type { DirectiveContext } from '../engine/directive-context.ts';
import type { Context } from './context.ts';
import type { JsonOutput, Operation, TypedOperation } from './define.ts';
import { direct, directErrors, planDirective } from './request-directive.ts';

/** The field of a result that names the directive. `defineDirective` fills it in. */
export const directiveIdField = z.string().describe('id of the directive that recorded the change');

/** A completed directive, from which an operation makes its output. */
export interface CompletedDirective<Input> {
  readonly input: Input;
  /** The result on record, with what only this caller sees. */
  readonly result: JsonObject;
  /** True only with `mayWait`: the directive waits for approval, and its result is empty. */
  readonly awaitingApproval: boolean;
}

type InheritedKey = 'name' | 'directive' | 'summary' | 'scope' | 'role' | 'isForRoot';
type DerivedKey = 'effect' | 'input' | 'output' | 'errors' | 'run' | 'plan';

/** The operation of a directive. What isn't said is inherited from the directive. */
type OperationPart<
  Name extends string,
  Input extends z.ZodObject,
  Output extends z.ZodObject,
> = Omit<Operation, InheritedKey | DerivedKey> &
  Partial<Pick<Operation, Exclude<InheritedKey, 'name' | 'directive'>>> & {
    /** `<noun>.<action>` (default: the type). */
    readonly name?: Name;
    readonly effect: 'write' | 'destroy';
    /** The input (default: the params). */
    readonly input?: Input;
    /** The output. Its field `directive_id` is filled in. */
    readonly output: Output;
    /** The errors besides those that every directive has. */
    readonly errors: readonly ErrorCode[];
    /** True if the caller gets a result even while the directive waits for approval. */
    readonly mayWait?: boolean;
    /** Converts the input into params (default: they are the same). */
    readonly toParams?: (context: Context, input: z.output<Input>) => object | Promise<object>;
    /** Returns the value beside the params, which isn't recorded. */
    readonly toSecret?: (
      context: Context,
      input: z.output<Input>,
    ) => string | undefined | Promise<string | undefined>;
    /** Returns the output (default: the fields of the directive's result). */
    readonly toOutput?: (
      context: Context,
      completed: CompletedDirective<z.output<Input>>,
    ) => OutputWithoutId<Output> | Promise<OutputWithoutId<Output>>;
    /** Throws if callers of a dry run get an error in place of this plan. */
    readonly checkPlan?: (plan: readonly string[]) => void;
  };

type OutputWithoutId<Output extends z.ZodObject> = Omit<z.output<Output>, 'directive_id'> &
  JsonOutput;

/** A type of directive as `all.ts` lists it, with its operation. */
export type ListedDirective = DirectiveDefinition<object, DirectiveContext> & {
  readonly operation: Operation | undefined;
};

/**
 * Defines a mutation: the type of directive, its execution, and the operation that requests it. This is the
 * only place that describes it. `src/operation/all.ts` lists it.
 */
export function defineDirective<
  const Type extends string,
  Params extends z.ZodObject,
  Output extends z.ZodObject,
  Recorded extends z.ZodObject = Params,
  Input extends z.ZodObject = Params,
  const Name extends string = Type,
>(
  definition: Omit<
    DirectiveDefinition<z.output<Recorded>, DirectiveContext>,
    'type' | 'params' | 'recorded'
  > & {
    readonly type: Type;
    readonly params: Params;
    readonly recorded?: Recorded;
    readonly operation: OperationPart<Name, Input, Output>;
  },
): DefinedDirective<
  Type,
  z.output<Recorded>,
  TypedOperation<Name, z.input<Input>, z.output<Output>>
> {
  const { operation: part, ...directive } = definition;
  const defined = directive as unknown as DefinedDirective<Type, z.output<Recorded>, Operation>;
  const operation = defineDirectiveOperation(defined, {
    name: directive.type as unknown as Name,
    input: directive.params as unknown as Input,
    ...part,
  });
  return { ...defined, operation };
}

type DefinedDirective<Type extends string, Params extends object, Defined> = DirectiveDefinition<
  Params,
  DirectiveContext
> & { readonly type: Type; readonly operation: Defined };

/** Defines a type of directive that no operation but `directive.request` requests. */
export function defineBareDirective<Params extends z.ZodObject>(
  definition: Omit<DirectiveDefinition<z.output<Params>, DirectiveContext>, 'params'> & {
    readonly params: Params;
  },
): ListedDirective {
  return { ...definition, operation: undefined };
}

/** Defines a further operation that requests a directive. */
export function defineDirectiveOperation<
  const Name extends string,
  Input extends z.ZodObject,
  Output extends z.ZodObject,
>(
  directive: Pick<ListedDirective, 'type' | 'summary' | 'scope' | 'role' | 'isForRoot'>,
  part: OperationPart<Name, Input, Output> & { readonly name: Name; readonly input: Input },
): TypedOperation<Name, z.input<Input>, z.output<Output>> {
  const { type, summary, scope, role, isForRoot } = directive;
  const { toParams, toSecret, toOutput, checkPlan, mayWait = false, errors, ...rest } = part;
  const readRequest = async (context: Context, input: z.output<Input>) => {
    const params = (await toParams?.(context, input)) ?? input;
    const secret = await toSecret?.(context, input);
    return { params, more: secret === undefined ? {} : { secret } };
  };
  const operation = {
    directive: type,
    summary,
    scope,
    ...(role === undefined ? {} : { role }),
    ...(isForRoot === undefined ? {} : { isForRoot }),
    ...rest,
    errors: [...directErrors, ...errors],
    async run(context: Context, input: z.output<Input>) {
      const { params, more } = await readRequest(context, input);
      const { id, result, awaitingApproval } = await direct(context, type, params, {
        ...more,
        mayWait,
      });
      if (toOutput === undefined) return part.output.parse({ ...result, directive_id: id });
      const output = await toOutput(context, { input, result, awaitingApproval });
      return 'directive_id' in part.output.shape ? { ...output, directive_id: id } : output;
    },
    async plan(context: Context, input: z.output<Input>) {
      const { params, more } = await readRequest(context, input);
      const plan = await planDirective(context, type, params, more);
      checkPlan?.(plan);
      return plan;
    },
  };
  return operation as unknown as TypedOperation<Name, z.input<Input>, z.output<Output>>;
}
