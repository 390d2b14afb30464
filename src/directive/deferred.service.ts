import { DuctileError, messageOf, toDuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import { explainRefusal, type Decider, isSamePerson } from './approval.ts';
import { isFinal, type Directive, type DirectiveDraft } from './directive.ts';
import type { DirectiveWait } from './types.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { JOB_ACTOR } from '../job/job.ts';
import {
  toFailure,
  createMismatchError,
  createNotWaitingError,
  requireDirective,
  logDirective,
  toDirectiveResult,
  type DirectiveResult,
} from './result.service.ts';
import {
  admitWork,
  toLedgerWork,
  type DirectiveExecution,
  type AnyDirective,
  type PreparedWork,
  directiveRulesOf,
  parseParams,
} from './define.service.ts';
import { followDirective, followEnds } from './signals.service.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { Log } from '../base/log.ts';

/** The parts of `Directives` that start a waiting directive. */
export interface DirectiveStarter {
  /** Throws if the requester has lost the right to it. */
  readonly authorize: (directive: Directive) => Promise<void>;
  readonly types: ReadonlyMap<string, AnyDirective>;
  readonly createExecution: (directive: Directive) => DirectiveExecution;
  /** Executes a directive that this process started, and records its end. */
  readonly finish: (
    definition: AnyDirective,
    params: object,
    started: Directive,
    execution: DirectiveExecution,
    prepared: PreparedWork,
  ) => Promise<Directive>;
  readonly isStopping: () => boolean;
}

/** Directives that don't start with their request: they wait for an approval, or for their time. */
export class WaitingDirectives {
  readonly #context: LedgerContext;
  readonly #log: Log;
  readonly #starter: DirectiveStarter;
  readonly #starting = new Map<string, Promise<void>>();

  constructor(context: LedgerContext, starter: DirectiveStarter) {
    this.#context = context;
    this.#log = context.log.child('directive');
    this.#starter = starter;
  }

  /** Records a waiting directive, unless the same request was made before. */
  async defer(
    draft: DirectiveDraft,
    wait: DirectiveWait,
  ): Promise<{ directive: Directive; isNew: boolean }> {
    const { ledger, processId, commits } = this.#context;
    const { directive, verdict } = await ledger.directives.create({
      draft,
      processId,
      work: undefined,
      wait,
      begin: followDirective(draft, 'requested', directiveRulesOf(this.#context)),
      ends: followEnds(draft, directiveRulesOf(this.#context)),
    });
    if (verdict === 'mismatch') throw createMismatchError(directive);
    const isNew = verdict === 'recorded';
    if (isNew) {
      logDirective(directive, this.#log);
      commits.publish({ moments: [{ directive, moment: 'requested' }] });
    }
    return { directive, isNew };
  }

  /** Approves a directive, and starts it here unless it is for later. */
  async approve(id: string, decider: Decider): Promise<DirectiveResult> {
    const { ledger, commits } = this.#context;
    const directive = await requireDirective(ledger, id);
    await this.requireApprover(directive, decider);
    const follows = followDirective(directive, 'approved', directiveRulesOf(this.#context));
    const isFirst = await ledger.directives.approve({ id, actor: decider.actor, ...follows });
    const now = await requireDirective(ledger, id);
    // A repeated approval by the same decider returns the result.
    if (now.approvedBy !== decider.actor) throw createNotWaitingError(now);
    if (isFirst) {
      logDirective(now, this.#log);
      commits.publish({ moments: [{ directive: now, moment: 'approved' }] });
    }
    if (!isFinal(now.status)) await this.#start(now);
    return toDirectiveResult(await requireDirective(ledger, id), !isFirst);
  }

  /** Throws if the directive isn't waiting for approval, or the decider can't approve it. */
  async requireApprover(directive: Directive, decider: Decider): Promise<void> {
    const { id, status, awaitingApproval, approvedBy } = directive;
    const isOpen = awaitingApproval && status === 'requested';
    if (!isOpen && approvedBy !== decider.actor) throw createNotWaitingError(directive);
    const isOwn = await isOwnRequest(directive, decider.actor, this.#context.ledger);
    const refusal = explainRefusal(
      { ...directive, isOwn },
      decider,
      this.#context.config.directives.approval,
    );
    if (refusal === undefined) return;
    const hint = 'It keeps waiting. To cancel it, run `ductile directive cancel`.';
    throw new DuctileError('FORBIDDEN', refusal, { place: id, hint });
  }

  /** Cancels a directive that hasn't started. */
  async cancel(id: string, { actor }: Pick<Decider, 'actor'>): Promise<DirectiveResult> {
    const { ledger, commits } = this.#context;
    const directive = await requireDirective(ledger, id);
    const follows = followDirective(directive, 'cancelled', directiveRulesOf(this.#context));
    const isFirst = await ledger.directives.cancel({ id, actor, ...follows });
    const now = await requireDirective(ledger, id);
    if (now.status !== 'cancelled') throw createNotWaitingError(now);
    if (isFirst) {
      logDirective(now, this.#log);
      commits.publish({ moments: [{ directive: now, moment: 'cancelled' }] });
    }
    commits.publish({ claimable: true, advancing: true });
    return toDirectiveResult(now, !isFirst);
  }

  /** Starts due directives, and doesn't wait for their end. */
  async startDue(): Promise<void> {
    if (this.#starter.isStopping()) return;
    const types = [...this.#starter.types.keys()];
    const due = await this.#context.ledger.directives.listDue(types, limits.directivesStartedMax);
    for (const directive of due) void this.#start(directive);
  }

  /** Resolves when no directive is being started or executed. */
  async settled(): Promise<void> {
    await Promise.all(this.#starting.values());
  }

  /** Starts a directive once. After an error, `startDue` tries it again. */
  #start(directive: Directive): Promise<void> {
    const { id } = directive;
    const known = this.#starting.get(id);
    if (known !== undefined) return known;
    const starting = this.#startWaiting(directive)
      .catch((error: unknown) => {
        const fields = { directive_id: id, type: directive.type, error: messageOf(error) };
        this.#log.warn('a directive could not be started yet', fields);
      })
      .finally(() => this.#starting.delete(id));
    this.#starting.set(id, starting);
    return starting;
  }

  async #startWaiting(directive: Directive): Promise<void> {
    const { ledger, processId, quota, commits } = this.#context;
    const { types, authorize, createExecution, finish, isStopping } = this.#starter;
    const definition = types.get(directive.type);
    if (definition === undefined || isStopping()) return;
    const params = parseJson(directive.params) as object;
    const execution = createExecution(directive);
    const prepared = await prepareDeferred(async () => {
      await authorize(directive);
      const known = parseParams({ params: definition.recorded ?? definition.params }, params);
      await definition.plan(this.#context, known);
      return (await definition.prepare?.(this.#context, known, execution)) ?? {};
    });
    const started = await admitWork(prepared, quota, () =>
      ledger.directives.start({
        directive,
        processId,
        ...toLedgerWork(prepared),
        begin: followDirective(directive, 'started', directiveRulesOf(this.#context)),
        ends: followEnds(directive, directiveRulesOf(this.#context)),
      }),
    );
    if (started === undefined) return;
    commits.publish({ moments: [{ directive: started, moment: 'started' }] });
    await finish(definition, params, started, execution, prepared);
  }
}

/** True if the decider requested it, by themselves, by a job, or by another token of theirs. */
async function isOwnRequest(
  { actor, correlationId }: Directive,
  decider: string,
  ledger: Ledger,
): Promise<boolean> {
  const root = actor.startsWith(JOB_ACTOR) ? await ledger.jobs.find(correlationId) : undefined;
  const origins = await ledger.tokens.listOrigins();
  const actors = [actor, root?.actor ?? []].flat();
  return actors.some((one) => isSamePerson(one, decider, origins));
}

/** Turns a refusal into the end of the directive: it was valid at the request, and isn't any more. */
async function prepareDeferred(prepare: () => Promise<PreparedWork>): Promise<PreparedWork> {
  try {
    return await prepare();
  } catch (thrown) {
    const error = toDuctileError(thrown);
    if (error.kind.retryable) throw error;
    return { work: () => Promise.resolve(toFailure(error)) };
  }
}
