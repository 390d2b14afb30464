import { DuctileError, messageOf, toDuctileError } from '../base/errors.ts';
import { toCanonicalJson, type JsonObject } from '../base/json.ts';
import { makeId } from '../base/ids.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import { suggest } from '../base/text.ts';
import {
  callerKey,
  isFinal,
  isLatest,
  isSameRequest,
  nounOf,
  type Directive,
  type DirectiveDraft,
  type DirectiveType,
} from './directive.ts';
import { isAtLeast, type Role } from '../access/roles.ts';
import type { DirectiveEnd, DirectiveWait } from './types.ts';
import {
  checkKey,
  describeAgain,
  describeLasting,
  describeWait,
  endFailed,
  mismatch,
  planned,
  readDirective,
  resultOf,
  logDirective,
  toAnswer,
  type DirectAnswer,
} from './directive-result.service.ts';
import {
  admitWork,
  prepareWork,
  type Asked,
  type DirectiveDefinition,
  type DirectRequest,
  type DrawnSecret,
  type Prepared,
  directiveRulesOf,
} from './define.service.ts';
import { digestParams, parseParams } from './params.service.ts';
import { followBegin, followDirective, followEnds, type Told } from './signals.service.ts';
import { WaitingDirectives } from './deferred.service.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { Log } from '../base/log.ts';

/** Between two tries to write down how a directive ended. */
const CLOSE_RETRY_MS = 1000;

/** Request → plan → execute: the one way in which anything about the system is changed. */
export class Directives {
  readonly #context: LedgerContext;
  readonly #log: Log;
  readonly #types = new Map<string, DirectiveDefinition<object>>();
  readonly #underWay = new Map<string, Promise<void>>();
  /** Values for waiting callers that aren't in the record, by directive. */
  readonly #revealed = new Map<string, JsonObject>();
  readonly #stop = new AbortController();
  /** Those that are not done when they are asked for. */
  readonly waiting: WaitingDirectives;

  /** `authorize` throws if the requester may not have the directive done any more. */
  constructor(context: LedgerContext, authorize: (directive: Directive) => Promise<void>) {
    this.#context = context;
    this.#log = context.log.child('directive');
    this.waiting = new WaitingDirectives(context, {
      authorize,
      types: this.#types,
      askedOf: (directive) => this.#askedOf(directive),
      finish: (definition, params, begun) => this.#finish(definition, params, begun),
      isStopping: () => this.#stop.signal.aborted,
    });
  }

  /** All types that can be asked for. */
  get types(): readonly Omit<DirectiveType<object>, 'sameness' | 'target'>[] {
    return [...this.#types.values()];
  }

  registerDirective<Params extends object>(definition: DirectiveDefinition<Params>): void {
    this.#types.set(definition.type, definition);
  }

  async direct(request: DirectRequest): Promise<DirectAnswer> {
    const definition = this.#find(request.type);
    const given = parseParams(definition, request.params);
    // Before anything is resolved: what a key stands for doesn't change with packages or files.
    const keyed = await this.#recallKey(definition, given, request);
    if (keyed !== undefined) return await this.#repeat(keyed, request);
    const resolved = (await definition.resolve?.(given, request)) ?? given;
    await this.#requireRole(definition, resolved, request.actorRole);
    const drawn = request.dryRun === true ? undefined : definition.draw?.();
    const params = { ...resolved, ...drawn?.params };
    const wait = this.#waitOf(definition, request);
    const draft = this.#draft(definition, params, { ...request, given });
    const earlier = await this.#recall(draft, wait);
    if (earlier !== undefined) return await this.#repeat(earlier, request);
    let plan: string[];
    try {
      plan = await definition.plan(params);
    } catch (error) {
      return await this.#refuse(draft, error, wait);
    }
    if (request.dryRun === true) {
      return planned([...plan, ...describeLasting(definition, plan), ...describeWait(wait)]);
    }
    if (this.#stop.signal.aborted) throw new DuctileError('STOPPING', 'the engine is stopping');
    const asked = { ...draft, plan: JSON.stringify(plan) };
    if (wait === undefined) {
      return await this.#carryOut(definition, params, asked, { ...request, drawn });
    }
    const { directive, isNew } = await this.waiting.putOff(asked, wait);
    if (!isNew) return await this.#answerAgain(directive);
    const answer = toAnswer(directive, false);
    return drawn === undefined ? answer : { ...answer, result: drawn.reveal };
  }

  /** Throws FORBIDDEN if params that are on record need a higher role. */
  async requireRole(type: string, params: object, role: Role): Promise<void> {
    const definition = this.#find(type);
    const known = parseParams({ params: definition.recorded ?? definition.params }, params);
    await this.#requireRole(definition, known, role);
  }

  /** Resolves when nothing is under way; what has not ended by then is failed by whoever comes next. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await Promise.allSettled([...this.#underWay.values(), this.waiting.settled()]);
  }

  #find(type: string): DirectiveDefinition<object> {
    const definition = this.#types.get(type);
    if (definition !== undefined) return definition;
    throw new DuctileError('INPUT_INVALID', `there is no directive ${type}`, {
      place: 'type',
      hint: suggest(type, [...this.#types.keys()], 'directives'),
    });
  }

  /** A request without a role comes from the service itself. */
  async #requireRole(
    definition: DirectiveDefinition<object>,
    params: object,
    role: Role | undefined,
  ): Promise<void> {
    if (role === undefined) return;
    const need = await definition.roleFor?.(params);
    if (need === undefined || isAtLeast(role, need.role)) return;
    const message = `${definition.type} sets ${need.what}, which needs the role ${need.role}`;
    const hint = `Use a token whose role is ${need.role}, or leave the value as it is.`;
    throw new DuctileError('FORBIDDEN', message, { place: need.what, hint });
  }

  /** Finds what was requested under the caller's key; throws if that was another request. */
  async #recallKey(
    definition: DirectiveDefinition<object>,
    given: object,
    { actor, idempotencyKey, secret }: DirectRequest,
  ): Promise<Directive | undefined> {
    if (idempotencyKey === undefined) return undefined;
    checkKey(idempotencyKey);
    const key = callerKey(actor, idempotencyKey);
    const [earlier] = await this.#context.ledger.directives.list({ idempotencyKey: key, limit: 1 });
    // Directives of older versions are compared by what they were resolved to.
    if (earlier === undefined || earlier.askedDigest === null) return undefined;
    const recorded = parseJson(earlier.params) as object;
    const isSame =
      earlier.type === definition.type &&
      earlier.askedDigest === digestParams(given) &&
      (definition.isSameSecret?.(recorded, secret) ?? true);
    if (!isSame) throw mismatch(earlier);
    return earlier;
  }

  #draft(
    definition: DirectiveDefinition<object>,
    params: object,
    request: DirectRequest & { readonly given: object },
  ): DirectiveDraft {
    const { actor, actorRole, idempotencyKey, correlationId, causationId, given } = request;
    const { type, scope, isRepeatable } = definition;
    const id = makeId();
    return {
      id,
      type,
      target: `${nounOf(type)}:${definition.target(params)}`,
      params: toCanonicalJson(params),
      askedDigest: digestParams(given),
      actor,
      actorRole: actorRole ?? null,
      scope,
      correlationId: correlationId ?? id,
      causationId: causationId ?? null,
      maxAttempts: isRepeatable === true ? limits.directiveAttemptsMax : 1,
      sameness:
        idempotencyKey === undefined
          ? definition.sameness(params)
          : { key: callerKey(actor, idempotencyKey) },
      plan: '[]',
      signalId: makeId(),
    };
  }

  /** Asked before the plan: what was done once may not be possible a second time. */
  async #recall(draft: DirectiveDraft, wait?: DirectiveWait): Promise<Directive | undefined> {
    const { sameness, target } = draft;
    if (sameness === 'latest' && wait?.due === undefined) {
      const [last] = await this.#context.ledger.directives.list({ target, isDone: true, limit: 1 });
      return last !== undefined && isLatest(last, draft) ? last : undefined;
    }
    if (typeof sameness === 'string') return undefined;
    const { key: idempotencyKey } = sameness;
    const [earlier] = await this.#context.ledger.directives.list({ idempotencyKey, limit: 1 });
    if (earlier === undefined) return undefined;
    if (!isSameRequest(earlier, draft)) throw mismatch(earlier);
    return earlier;
  }

  /** The same may have been done since it was looked for, and be what is in the way: then that is the answer. */
  async #refuse(
    draft: DirectiveDraft,
    error: unknown,
    wait?: DirectiveWait,
  ): Promise<DirectAnswer> {
    const meanwhile = await this.#recall(draft, wait);
    if (meanwhile === undefined) throw error;
    return await this.#answerAgain(meanwhile);
  }

  /** What keeps it from being done at once. */
  #waitOf(
    { type, isImmediate }: DirectiveDefinition<object>,
    { due }: DirectRequest,
  ): DirectiveWait | undefined {
    const forApproval = Object.hasOwn(this.#context.config.directives.approval, type);
    if (due === undefined && !forApproval) return undefined;
    if (isImmediate === true) {
      const message = `${type} is done for the one who asks, and not later`;
      throw new DuctileError('INPUT_INVALID', message, { place: 'run_at' });
    }
    return { forApproval, ...(due === undefined ? {} : { due }) };
  }

  async #carryOut(
    definition: DirectiveDefinition<object>,
    params: object,
    draft: DirectiveDraft,
    {
      secret,
      isQuiet = false,
      drawn,
    }: Pick<DirectRequest, 'secret' | 'isQuiet'> & {
      readonly drawn: DrawnSecret<object> | undefined;
    },
  ): Promise<DirectAnswer> {
    const { ledger, processId, quota, commits } = this.#context;
    const asked = this.#askedOf(draft);
    const told = { ...draft, isQuiet };
    let prepared: Prepared;
    try {
      prepared = await prepareWork(definition, params, { ...asked, secret });
    } catch (error) {
      return await this.#refuse(draft, error);
    }
    const { directive, verdict } = await admitWork(prepared, quota, () =>
      ledger.directives.create({
        draft,
        processId,
        work: prepared.work,
        begin: followBegin(told, directiveRulesOf(this.#context)),
        ends: followEnds(told, directiveRulesOf(this.#context)),
      }),
    );
    if (verdict === 'mismatch') throw mismatch(directive);
    if (verdict === 'repeated') return await this.#answerAgain(directive);
    const moments = ['requested', 'started'] as const;
    commits.publish({ moments: moments.map((moment) => ({ directive, moment })) });
    const ended = await this.#finish(definition, params, { ...directive, isQuiet });
    const answer = toAnswer(ended, false);
    const reveal = { ...drawn?.reveal, ...prepared.reveal, ...this.#revealed.get(draft.id) };
    this.#revealed.delete(draft.id);
    if (ended.status !== 'completed') return answer;
    return { ...answer, result: { ...answer.result, ...reveal } };
  }

  #askedOf({ id, actor, progress }: Pick<Directive, 'id' | 'actor'> & Partial<Directive>): Asked {
    const isBegun = progress !== undefined && progress !== null;
    const reached = isBegun ? (parseJson(progress) as JsonObject) : null;
    const reveal = (shown: JsonObject): void => void this.#revealed.set(id, shown);
    return { directiveId: id, actor, progress: reached, reveal, signal: this.#stop.signal };
  }

  /** From what was begun here to its end, and whatever that leads to in this process. */
  async #finish(
    definition: DirectiveDefinition<object>,
    params: object,
    begun: Directive & Pick<Told, 'isQuiet'>,
  ): Promise<Directive> {
    const isLeft = begun.status === 'running';
    const ended = isLeft ? await this.#execute(definition, params, begun) : begun;
    logDirective(ended, this.#log);
    const { status } = ended;
    if (status !== 'requested' && status !== 'running')
      this.#context.commits.publish({ moments: [{ directive: ended, moment: status }] });
    // First noticed here, then looked for: what was switched on should be found by that look.
    if (status === 'completed') await this.#follow(definition, params, ended);
    this.#context.commits.publish({ claimable: true, advancing: true });
    return ended;
  }

  async #execute(
    definition: DirectiveDefinition<object>,
    params: object,
    draft: Directive & Pick<Told, 'isQuiet'>,
  ): Promise<Directive> {
    if (definition.execute === undefined) throw new Error(`nobody executes ${draft.type}`);
    const work = definition.execute(params, this.#askedOf(draft)).then(
      (result): DirectiveEnd => ({ status: 'completed', result }),
      (thrown: unknown): DirectiveEnd => endFailed(toDuctileError(thrown)),
    );
    const closed = work.then((end) =>
      definition.isResumable === true && isInterrupted(end)
        ? this.#context.ledger.directives.release({ ...draft, processId: this.#context.processId })
        : this.#close(draft, end),
    );
    this.#underWay.set(draft.id, closed);
    try {
      await closed;
    } finally {
      this.#underWay.delete(draft.id);
    }
    return await readDirective(this.#context.ledger, draft.id).catch((cause: unknown) => {
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
      this.#log.warn('this process has yet to notice what was directed', fields);
    }
  }

  /** What was done is done; until that is on the ledger, nobody is told. */
  async #close(draft: Told, end: DirectiveEnd): Promise<void> {
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

  /** Somebody believed that this process was dead and ended it; what it did is done all the same. */
  async #logLost({ id }: Told, { status }: DirectiveEnd): Promise<void> {
    const recorded = await this.#context.ledger.directives.find(id);
    if (recorded === undefined || recorded.status === status) return;
    const fields = { directive_id: id, ended: status, recorded: recorded.status };
    this.#log.warn('a directive was ended by another process before it had ended', fields);
  }

  async #repeat(earlier: Directive, { dryRun }: DirectRequest): Promise<DirectAnswer> {
    if (dryRun === true) return planned(describeAgain(earlier));
    return await this.#answerAgain(earlier);
  }

  async #answerAgain(directive: Directive): Promise<DirectAnswer> {
    const { id, status } = directive;
    await this.#underWay.get(id);
    const now = isFinal(status) ? directive : await readDirective(this.#context.ledger, id);
    return toAnswer(now, true);
  }
}

/** Somebody stopped the process, not the work. */
function isInterrupted(end: DirectiveEnd): boolean {
  return end.status === 'failed' && end.code === 'STOPPING';
}
