import type { StartedCommand } from '../access/scopes.ts';
import { DuctileError, messageOf, toDuctileError } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import { suggest } from '../base/text.ts';
import {
  callerKey,
  isFinal,
  isLatest,
  isSameRequest,
  type Directive,
  type DirectiveCaller,
  type DirectiveDraft,
  type DirectiveType,
} from './directive.ts';
import type { Role } from '../base/roles.ts';
import type { DirectiveEnd, DirectiveWait } from './types.ts';
import {
  checkKey,
  describeRepeat,
  describeLasting,
  describeWait,
  isInterrupted,
  toFailure,
  createMismatchError,
  createPlanResult,
  requireDirective,
  readResult,
  logDirective,
  toDirectiveResult,
  type DirectiveResult,
} from './result.service.ts';
import {
  admitWork,
  checkRole,
  createDraft,
  toLedgerWork,
  type AnyDirective,
  type DirectiveExecution,
  type DirectiveDefinition,
  type DirectiveRequest,
  type DrawnSecret,
  type PreparedWork,
  directiveRulesOf,
  digestParams,
  parseAnyParams,
  parseParams,
} from './define.service.ts';
import {
  followStart,
  followDirective,
  followEnds,
  type SignalledDirective,
} from './signals.service.ts';
import { WaitingDirectives } from './deferred.service.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { Log } from '../base/log.ts';

/** The pause between two attempts to record the end of a directive. */
const CLOSE_RETRY_MS = 1000;

/** Request → plan → execute: every change of the system takes this way. */
export class Directives {
  readonly #context: LedgerContext;
  readonly #log: Log;
  readonly #types: Map<string, AnyDirective>;
  readonly #running = new Map<string, Promise<void>>();
  /** Values for waiting callers that aren't in the record, by directive. */
  readonly #revealed = new Map<string, JsonObject>();
  readonly #stop = new AbortController();
  /** Directives that don't start with their request. */
  readonly waiting: WaitingDirectives;

  /** `authorize` throws if the requester of a waiting directive has lost the right to it. */
  constructor(
    context: LedgerContext,
    definitions: readonly AnyDirective[],
    authorize: (directive: Directive) => Promise<void>,
  ) {
    this.#context = context;
    this.#types = new Map(definitions.map((definition) => [definition.type, definition]));
    this.#log = context.log.child('directive');
    this.waiting = new WaitingDirectives(context, {
      authorize,
      types: this.#types,
      createExecution: (directive) => this.#createExecution(directive),
      finish: (...started) => this.#finish(...started),
      isStopping: () => this.#stop.signal.aborted,
    });
  }

  /** All types that can be requested. */
  get types(): readonly Omit<DirectiveType<object>, 'sameness' | 'target'>[] {
    return [...this.#types.values()];
  }

  /** Adds a type to those of the constructor. */
  registerDirective<Params extends object>(
    definition: DirectiveDefinition<Params, LedgerContext>,
  ): void {
    this.#types.set(definition.type, definition);
  }

  async direct(request: DirectiveRequest): Promise<DirectiveResult> {
    const definition = this.#find(request.type);
    const given = parseParams(definition, request.params);
    // Before `resolve`, because the same key must find the same request after packages or files change.
    const known = await this.#findByKey(definition, given, request);
    if (known !== undefined) return await this.#repeat(known, request);
    const resolved = (await definition.resolve?.(this.#context, given, request)) ?? given;
    const { actorRole } = request;
    if (actorRole !== undefined) await checkRole(definition, resolved, this.#context, actorRole);
    const drawn = request.dryRun === true ? undefined : definition.draw?.();
    const params = { ...resolved, ...drawn?.params };
    const wait = this.#waitOf(definition, request);
    const draft = createDraft(definition, params, { ...request, given });
    const earlier = await this.#findEarlier(draft, wait);
    if (earlier !== undefined) return await this.#repeat(earlier, request);
    let plan: string[];
    try {
      plan = await definition.plan(this.#context, params);
    } catch (error) {
      return await this.#refuse(draft, error, wait);
    }
    if (request.dryRun === true) {
      return createPlanResult([
        ...plan,
        ...describeLasting(definition, plan),
        ...describeWait(wait),
      ]);
    }
    if (this.#stop.signal.aborted) throw new DuctileError('STOPPING', 'the service is stopping');
    const planned = { ...draft, plan: JSON.stringify(plan) };
    if (wait === undefined) {
      return await this.#executeNow(definition, params, planned, { ...request, drawn });
    }
    const { directive, isNew } = await this.waiting.defer(planned, wait);
    if (!isNew) return await this.#returnKnown(directive);
    const result = toDirectiveResult(directive, false);
    return drawn === undefined ? result : { ...result, result: drawn.reveal };
  }

  /** Throws if a caller who isn't an owner can't request these params. */
  async authorize(type: string, params: object, caller: DirectiveCaller): Promise<void> {
    await this.#types.get(type)?.authorize?.(this.#context, params, caller);
  }

  /** Finds the commands that a directive would start. */
  async findStarted(type: string, raw: object): Promise<readonly StartedCommand[]> {
    const definition = this.#find(type);
    const params = parseAnyParams(definition, raw);
    return (await definition.findStarted?.(this.#context, params)) ?? [];
  }

  /** Throws FORBIDDEN if recorded params need a higher role. */
  async requireRole(type: string, params: object, role: Role): Promise<void> {
    const definition = this.#find(type);
    const known = parseParams({ params: definition.recorded ?? definition.params }, params);
    await checkRole(definition, known, this.#context, role);
  }

  /** Resolves when no directive runs here. The next process fails or resumes what has no recorded end. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await Promise.allSettled([...this.#running.values(), this.waiting.settled()]);
  }

  #find(type: string): AnyDirective {
    const definition = this.#types.get(type);
    if (definition !== undefined) return definition;
    throw new DuctileError('INPUT_INVALID', `there is no directive ${type}`, {
      place: 'type',
      hint: suggest(type, [...this.#types.keys()], 'directives'),
    });
  }

  /** Finds the directive of the caller's key; throws if it was another request. */
  async #findByKey(
    definition: AnyDirective,
    given: object,
    { actor, idempotencyKey, secret }: DirectiveRequest,
  ): Promise<Directive | undefined> {
    if (idempotencyKey === undefined) return undefined;
    checkKey(idempotencyKey);
    const key = callerKey(actor, idempotencyKey);
    const [earlier] = await this.#context.ledger.directives.list({ idempotencyKey: key, limit: 1 });
    // Directives of older versions have no digest; `#findEarlier` compares their resolved params.
    if (earlier === undefined || earlier.askedDigest === null) return undefined;
    const recorded = parseJson(earlier.params) as object;
    const isSame =
      earlier.type === definition.type &&
      earlier.askedDigest === digestParams(given) &&
      (definition.isSameSecret?.(this.#context, recorded, secret) ?? true);
    if (!isSame) throw createMismatchError(earlier);
    return earlier;
  }

  /** Called before the plan, because what is done already may not be possible a second time. */
  async #findEarlier(draft: DirectiveDraft, wait?: DirectiveWait): Promise<Directive | undefined> {
    const { sameness, target } = draft;
    if (sameness === 'latest' && wait?.due === undefined) {
      const [last] = await this.#context.ledger.directives.list({ target, isDone: true, limit: 1 });
      return last !== undefined && isLatest(last, draft) ? last : undefined;
    }
    if (typeof sameness === 'string') return undefined;
    const { key: idempotencyKey } = sameness;
    const [earlier] = await this.#context.ledger.directives.list({ idempotencyKey, limit: 1 });
    if (earlier === undefined) return undefined;
    if (!isSameRequest(earlier, draft)) throw createMismatchError(earlier);
    return earlier;
  }

  /** Throws the error, unless the same request was executed meanwhile and caused it. */
  async #refuse(
    draft: DirectiveDraft,
    error: unknown,
    wait?: DirectiveWait,
  ): Promise<DirectiveResult> {
    const meanwhile = await this.#findEarlier(draft, wait);
    if (meanwhile === undefined) throw error;
    return await this.#returnKnown(meanwhile);
  }

  /** Returns what delays a directive; undefined if it starts at once. */
  #waitOf(
    { type, isImmediate }: AnyDirective,
    { due }: DirectiveRequest,
  ): DirectiveWait | undefined {
    const forApproval = Object.hasOwn(this.#context.config.directives.approval, type);
    if (due === undefined && !forApproval) return undefined;
    if (isImmediate === true) {
      const message = `${type} must run immediately, so it cannot be delayed or wait for approval`;
      throw new DuctileError('INPUT_INVALID', message, { place: 'run_at' });
    }
    return { forApproval, ...(due === undefined ? {} : { due }) };
  }

  async #executeNow(
    definition: AnyDirective,
    params: object,
    draft: DirectiveDraft,
    {
      secret,
      isQuiet = false,
      drawn,
    }: Pick<DirectiveRequest, 'secret' | 'isQuiet'> & {
      readonly drawn: DrawnSecret<object> | undefined;
    },
  ): Promise<DirectiveResult> {
    const { ledger, processId, quota, commits } = this.#context;
    const execution = { ...this.#createExecution(draft), secret };
    const signalled = { ...draft, isQuiet };
    let prepared: PreparedWork;
    try {
      prepared = (await definition.prepare?.(this.#context, params, execution)) ?? {};
    } catch (error) {
      return await this.#refuse(draft, error);
    }
    const { directive, verdict } = await admitWork(prepared, quota, () =>
      ledger.directives.create({
        draft,
        processId,
        ...toLedgerWork(prepared),
        begin: followStart(signalled, directiveRulesOf(this.#context)),
        ends: followEnds(signalled, directiveRulesOf(this.#context)),
      }),
    );
    if (verdict === 'mismatch') throw createMismatchError(directive);
    if (verdict === 'repeated') return await this.#returnKnown(directive);
    const moments = ['requested', 'started'] as const;
    commits.publish({ moments: moments.map((moment) => ({ directive, moment })) });
    const started = { ...directive, isQuiet };
    const ended = await this.#finish(definition, params, started, execution, prepared);
    const result = toDirectiveResult(ended, false);
    const reveal = { ...drawn?.reveal, ...prepared.reveal, ...this.#revealed.get(draft.id) };
    this.#revealed.delete(draft.id);
    if (ended.status !== 'completed') return result;
    return { ...result, result: { ...result.result, ...reveal } };
  }

  #createExecution({
    id,
    actor,
    progress,
  }: Pick<Directive, 'id' | 'actor'> & Partial<Directive>): DirectiveExecution {
    const reached = typeof progress === 'string' ? (parseJson(progress) as JsonObject) : null;
    const reveal = (shown: JsonObject): void => void this.#revealed.set(id, shown);
    const direct = (request: DirectiveRequest) => this.direct(request);
    return { directiveId: id, actor, progress: reached, direct, reveal, signal: this.#stop.signal };
  }

  /** Executes a directive that this process started, records its end, and applies it in this process. */
  async #finish(
    definition: AnyDirective,
    params: object,
    started: Directive & Pick<SignalledDirective, 'isQuiet'>,
    execution: DirectiveExecution,
    prepared: PreparedWork,
  ): Promise<Directive> {
    const isRunning = started.status === 'running';
    const ended = isRunning ? await this.#execute(definition, params, started, execution) : started;
    logDirective(ended, this.#log);
    const { status } = ended;
    if (status !== 'requested' && status !== 'running')
      this.#context.commits.publish({ moments: [{ directive: ended, moment: status }] });
    // Before the wake-up below, so that it finds what was enabled.
    if (status === 'completed') await this.#apply(definition, params, ended, prepared);
    this.#context.commits.publish({ claimable: true, advancing: true });
    return ended;
  }

  async #execute(
    definition: AnyDirective,
    params: object,
    draft: Directive & Pick<SignalledDirective, 'isQuiet'>,
    execution: DirectiveExecution,
  ): Promise<Directive> {
    if (definition.execute === undefined) throw new Error(`${draft.type} cannot be executed`);
    const work = definition.execute(this.#context, params, execution).then(
      (result): DirectiveEnd => ({ status: 'completed', result }),
      (thrown: unknown): DirectiveEnd => toFailure(toDuctileError(thrown)),
    );
    const closed = work.then((end) =>
      definition.isResumable === true && isInterrupted(end)
        ? this.#context.ledger.directives.release({ ...draft, processId: this.#context.processId })
        : this.#close(draft, end),
    );
    this.#running.set(draft.id, closed);
    try {
      await closed;
    } finally {
      this.#running.delete(draft.id);
    }
    return await requireDirective(this.#context.ledger, draft.id).catch((cause: unknown) => {
      const message = `directive ${draft.id} has ended, but its result cannot be read`;
      const hint = 'Read it when the database is available again. Do not repeat the request.';
      throw new DuctileError('LEDGER_UNCERTAIN', message, { hint, cause });
    });
  }

  /** Calls `after`. The directive is committed, so an error is only logged. */
  async #apply(
    definition: AnyDirective,
    params: object,
    directive: Directive,
    { after }: PreparedWork,
  ): Promise<void> {
    try {
      await after?.();
      await definition.after?.(this.#context, params, readResult(directive) ?? {});
    } catch (error) {
      const fields = { directive_id: directive.id, error: messageOf(error) };
      this.#log.warn('a completed directive is not applied in this process yet', fields);
    }
  }

  /** Records the end of executed work, and tries until it succeeds: only then the caller gets a result. */
  async #close(draft: SignalledDirective, end: DirectiveEnd): Promise<void> {
    const { ledger, processId } = this.#context;
    const log = this.#log;
    const failure = end.status === 'failed' ? end : undefined;
    const follows = followDirective(draft, end.status, directiveRulesOf(this.#context), failure);
    for (;;) {
      try {
        const isOurs = await ledger.directives.close({ id: draft.id, processId, end, ...follows });
        if (!isOurs) await this.#logLost(draft, end);
        return;
      } catch (error) {
        if (this.#stop.signal.aborted) throw error;
        const fields = { directive_id: draft.id, error: messageOf(error) };
        log.error('the end of a directive was not recorded; trying again', fields);
        await new Promise((resolve) => setTimeout(resolve, CLOSE_RETRY_MS));
      }
    }
  }

  /** Logs that another process took this one for dead and recorded a different end. */
  async #logLost({ id }: SignalledDirective, { status }: DirectiveEnd): Promise<void> {
    const recorded = await this.#context.ledger.directives.find(id);
    if (recorded === undefined || recorded.status === status) return;
    const fields = { directive_id: id, ended: status, recorded: recorded.status };
    this.#log.warn('another process recorded a different end of a directive', fields);
  }

  async #repeat(earlier: Directive, { dryRun }: DirectiveRequest): Promise<DirectiveResult> {
    if (dryRun === true) return createPlanResult(describeRepeat(earlier));
    return await this.#returnKnown(earlier);
  }

  /** Returns the result of an earlier request, after its end if it runs here. */
  async #returnKnown(directive: Directive): Promise<DirectiveResult> {
    const { id, status } = directive;
    await this.#running.get(id);
    const now = isFinal(status) ? directive : await requireDirective(this.#context.ledger, id);
    return toDirectiveResult(now, true);
  }
}
