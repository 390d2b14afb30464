import { DuctileError, messageOf, toDuctileError, type ErrorCode } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import type { JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { describeIssues } from '../config/issues.ts';
import { suggest } from '../config/nearest.ts';
import {
  callerKey,
  canonical,
  isFinal,
  isKeyTaken,
  type Directive,
  type DirectiveDraft,
  type DirectiveStatus,
} from '../directive/directive.ts';
import { nounOf, type DirectiveType } from '../directive/type.ts';
import type { DirectiveEnd, DirectiveWork } from '../ledger/directives.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { followDirective } from './directive-signals.ts';
import type { FollowRules } from './follow.ts';

export interface DirectRequest {
  readonly type: string;
  readonly params: unknown;
  readonly actor: string;
  readonly idempotencyKey?: string;
  readonly dryRun?: boolean;
}

export interface DirectAnswer {
  /** Null for a dry run, which writes nothing. */
  readonly id: string | null;
  readonly status: DirectiveStatus;
  readonly plan: readonly string[];
  readonly result: JsonObject | null;
  readonly error: string | null;
  readonly errorCode: ErrorCode | null;
  /** It had been asked for before; this is what became of it then. */
  readonly repeated: boolean;
}

/** A kind of directive and how it is done. `plan` throws what would refuse it. */
export type DirectiveDefinition<Params extends object> = DirectiveType<Params> & {
  plan(params: Params): string[] | Promise<string[]>;
  /** After the commit of one that completed, in the process that was asked. */
  after?(params: Params, result: JsonObject): void | Promise<void>;
} & (
    | {
        /** Pure SQL: the ledger does it in the transaction that records it. */
        prepare(params: Params, asked: Asked): Prepared | Promise<Prepared>;
        /** For params that the ledger cannot serve alone: what `prepare` leaves to the process. */
        execute?(params: Params, asked: Asked): Promise<JsonObject>;
      }
    | {
        /** Done by this process, while the directive is running. */
        execute(params: Params, asked: Asked): Promise<JsonObject>;
      }
  );

export interface Asked {
  readonly directiveId: string;
  readonly actor: string;
  /** Aborted when the process stops. */
  readonly signal: AbortSignal;
}

export interface Prepared {
  readonly work: DirectiveWork;
  /** What only the one who asks gets to see; it is kept nowhere. */
  readonly reveal?: JsonObject;
}

export interface DirectivesOptions {
  readonly ledger: Ledger;
  readonly processId: string;
  readonly rules: () => FollowRules;
  /** Something was committed that others may be waiting for. */
  readonly onChange: () => void;
  readonly log: Log;
}

/** Between two tries to write down how a directive ended. */
const CLOSE_RETRY_MS = 1000;

/** Request → plan → execute: the one way in which anything about the system is changed. */
export class Directives {
  readonly #options: DirectivesOptions;
  readonly #types = new Map<string, DirectiveDefinition<object>>();
  readonly #underWay = new Map<string, Promise<void>>();
  readonly #stop = new AbortController();

  constructor(options: DirectivesOptions) {
    this.#options = options;
  }

  /** All types that can be asked for. */
  get types(): readonly Pick<DirectiveType<object>, 'type' | 'summary' | 'scope' | 'params'>[] {
    return [...this.#types.values()];
  }

  registerDirective<Params extends object>(definition: DirectiveDefinition<Params>): void {
    this.#types.set(definition.type, definition);
  }

  async direct(request: DirectRequest): Promise<DirectAnswer> {
    const definition = this.#find(request.type);
    const params = parse(definition, request.params);
    const draft = this.#draft(definition, params, request);
    const earlier = await this.#recall(draft);
    if (earlier !== undefined) return await this.#answerAgain(earlier);
    const plan = await definition.plan(params);
    if (request.dryRun === true) return planned(plan);
    if (this.#stop.signal.aborted) throw new DuctileError('STOPPING', 'the engine is stopping');
    return await this.#carryOut(definition, params, { ...draft, plan: JSON.stringify(plan) });
  }

  /** Resolves when nothing is under way; what has not ended by then is failed by whoever comes next. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await Promise.allSettled(this.#underWay.values());
  }

  #find(type: string): DirectiveDefinition<object> {
    const definition = this.#types.get(type);
    if (definition !== undefined) return definition;
    throw new DuctileError('INPUT_INVALID', `there is no directive ${type}`, {
      place: 'type',
      hint: suggest(type, [...this.#types.keys()], 'directives'),
    });
  }

  #draft(
    definition: DirectiveDefinition<object>,
    params: object,
    { actor, idempotencyKey }: DirectRequest,
  ): DirectiveDraft {
    if (idempotencyKey !== undefined) checkKey(idempotencyKey);
    const { type, scope } = definition;
    return {
      id: makeId(),
      type,
      target: `${nounOf(type)}:${definition.target(params)}`,
      params: canonical(params as JsonObject),
      actor,
      scope,
      sameness:
        idempotencyKey === undefined
          ? definition.sameness(params)
          : { key: callerKey(actor, idempotencyKey) },
      plan: '[]',
      signalId: makeId(),
    };
  }

  /** Asked before the plan: what was done once may not be possible a second time. */
  async #recall(draft: DirectiveDraft): Promise<Directive | undefined> {
    if (typeof draft.sameness === 'string') return undefined;
    const { key: idempotencyKey } = draft.sameness;
    const [earlier] = await this.#options.ledger.directives({ idempotencyKey, limit: 1 });
    if (earlier === undefined) return undefined;
    if (earlier.type !== draft.type || earlier.params !== draft.params) throw mismatch(earlier);
    return earlier;
  }

  async #carryOut(
    definition: DirectiveDefinition<object>,
    params: object,
    draft: DirectiveDraft,
  ): Promise<DirectAnswer> {
    const { ledger, processId, onChange } = this.#options;
    const asked = { directiveId: draft.id, actor: draft.actor, signal: this.#stop.signal };
    const prepared: Prepared =
      'prepare' in definition
        ? await definition.prepare(params, asked)
        : { work: { kind: 'process' } };
    const rules = this.#options.rules();
    const { directive, verdict } = await ledger.direct({
      draft,
      processId,
      work: prepared.work,
      begin: followDirective(draft, 'requested', rules),
      ends: {
        completed: followDirective(draft, 'completed', rules),
        failed: followDirective(draft, 'failed', rules),
      },
    });
    if (verdict === 'mismatch') throw mismatch(directive);
    if (verdict === 'repeated') return await this.#answerAgain(directive);
    const isOurs = prepared.work.kind === 'process';
    const ended = isOurs ? await this.#execute(definition, params, asked, draft) : directive;
    this.#tell(ended);
    // First noticed here, then looked for: what was switched on should be found by that look.
    if (ended.status === 'completed') await this.#follow(definition, params, ended);
    onChange();
    const answer = toAnswer(ended, false);
    if (prepared.reveal === undefined || ended.status !== 'completed') return answer;
    return { ...answer, result: { ...answer.result, ...prepared.reveal } };
  }

  async #execute(
    definition: DirectiveDefinition<object>,
    params: object,
    asked: Asked,
    draft: DirectiveDraft,
  ): Promise<Directive> {
    if (definition.execute === undefined) throw new Error(`nobody executes ${draft.type}`);
    const work = definition.execute(params, asked).then(
      (result): DirectiveEnd => ({ status: 'completed', result }),
      (thrown: unknown): DirectiveEnd => {
        const { code, message } = toDuctileError(thrown);
        return { status: 'failed', code, error: message.slice(0, limits.errorCharsMax) };
      },
    );
    const closed = work.then((end) => this.#close(draft, end));
    this.#underWay.set(draft.id, closed);
    try {
      await closed;
    } finally {
      this.#underWay.delete(draft.id);
    }
    return await this.#read(draft.id).catch((cause: unknown) => {
      const message = `directive ${draft.id} has ended, but how cannot be read`;
      const hint = 'Look it up when the database is back, instead of asking again.';
      throw new DuctileError('LEDGER_UNCERTAIN', message, { hint, cause });
    });
  }

  /** It is committed: what goes wrong from here on may not sound as if it were not. */
  async #follow(
    definition: DirectiveDefinition<object>,
    params: object,
    directive: Directive,
  ): Promise<void> {
    try {
      await definition.after?.(params, resultOf(directive) ?? {});
    } catch (error) {
      const fields = { directive_id: directive.id, error: messageOf(error) };
      this.#options.log.warn('this process has yet to notice what was directed', fields);
    }
  }

  /** What was done is done; until that is on the ledger, nobody is told. */
  async #close(draft: DirectiveDraft, end: DirectiveEnd): Promise<void> {
    const { ledger, processId, log } = this.#options;
    const follows = followDirective(draft, end.status, this.#options.rules());
    for (;;) {
      try {
        const isOurs = await ledger.closeDirective({ id: draft.id, processId, end, ...follows });
        if (!isOurs) await this.#tellLost(draft, end);
        return;
      } catch (error) {
        if (this.#stop.signal.aborted) throw error;
        const fields = { directive_id: draft.id, error: messageOf(error) };
        log.error('the end of a directive was not recorded; trying again', fields);
        await new Promise((resolve) => setTimeout(resolve, CLOSE_RETRY_MS));
      }
    }
  }

  /** Somebody believed that this process was dead and ended it; what it did is done all the same. */
  async #tellLost({ id }: DirectiveDraft, { status }: DirectiveEnd): Promise<void> {
    const recorded = await this.#options.ledger.directive(id);
    if (recorded === undefined || recorded.status === status) return;
    const fields = { directive_id: id, ended: status, recorded: recorded.status };
    this.#options.log.warn('a directive was ended by another process before it had ended', fields);
  }

  async #answerAgain(directive: Directive): Promise<DirectAnswer> {
    await this.#underWay.get(directive.id);
    const now = isFinal(directive.status) ? directive : await this.#read(directive.id);
    return toAnswer(now, true);
  }

  async #read(id: string): Promise<Directive> {
    const directive = await this.#options.ledger.directive(id);
    if (directive !== undefined) return directive;
    throw new DuctileError('DIRECTIVE_NOT_FOUND', `there is no directive ${id}`, { place: id });
  }

  #tell({ id, type, target, actor, status, error }: Directive): void {
    const fields = { directive_id: id, type, target, actor, status };
    if (error === null) this.#options.log.info('directive', fields);
    else this.#options.log.warn('directive', { ...fields, error });
  }
}

function parse(definition: DirectiveDefinition<object>, raw: unknown): object {
  const parsed = definition.params.safeParse(raw);
  if (parsed.success) return parsed.data;
  const where = { value: raw, problems: [], placeOf: () => '' };
  const wording = { whole: 'params' };
  const problems = describeIssues(parsed.error.issues, definition.params, where, wording);
  const message = problems.map(({ key, message: said }) => `${key} ${said}`.trim()).join('; ');
  const place = ['params', problems[0]?.key ?? ''].filter((part) => part !== '').join('.');
  throw new DuctileError('INPUT_INVALID', message, { place });
}

function checkKey(key: string): void {
  const isBounded = key !== '' && Buffer.byteLength(key) <= limits.dedupeKeyBytesMax;
  if (isBounded && !isKeyTaken(key) && !key.includes('\u0000')) return;
  const message = `an idempotency key has 1 to ${limits.dedupeKeyBytesMax} bytes and begins with no "auto:"`;
  throw new DuctileError('INPUT_INVALID', message, { place: 'idempotency_key' });
}

function mismatch({ id, type }: Directive): DuctileError {
  const message = `the idempotency key belongs to another request, the ${type} of directive ${id}`;
  return new DuctileError('IDEMPOTENCY_MISMATCH', message, { place: 'idempotency_key' });
}

function planned(plan: readonly string[]): DirectAnswer {
  const nothing = { result: null, error: null, errorCode: null };
  return { id: null, status: 'requested', plan, ...nothing, repeated: false };
}

function toAnswer(directive: Directive, repeated: boolean): DirectAnswer {
  return {
    id: directive.id,
    status: directive.status,
    plan: JSON.parse(directive.plan) as string[],
    result: resultOf(directive),
    error: directive.error,
    errorCode: directive.errorCode as ErrorCode | null,
    repeated,
  };
}

function resultOf({ result }: Directive): JsonObject | null {
  return result === null ? null : (JSON.parse(result) as JsonObject);
}
