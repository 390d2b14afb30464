import { DuctileError, messageOf, toDuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import { explainRefusal, type Decider } from './approval.ts';
import { isSamePerson } from '../access/token-origin.ts';
import { isFinal, type Directive, type DirectiveDraft } from './directive.ts';
import type { DirectiveWait } from './types.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { JOB_ACTOR } from '../job/job.ts';
import {
  endFailed,
  mismatch,
  notWaiting,
  readDirective,
  logDirective,
  toAnswer,
  type DirectAnswer,
} from './directive-result.service.ts';
import {
  admitWork,
  prepareWork,
  type Asked,
  type DirectiveDefinition,
  type Prepared,
  directiveRulesOf,
} from './define.service.ts';
import { parseParams } from './params.service.ts';
import { followDirective, followEnds } from './signals.service.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { Log } from '../base/log.ts';

/** The parts of `Directives` that a waiting directive needs to begin. */
export interface DirectiveStarter {
  /** Throws if the requester may not have it done any more. */
  readonly authorize: (directive: Directive) => Promise<void>;
  readonly types: ReadonlyMap<string, DirectiveDefinition<object>>;
  readonly askedOf: (directive: Directive) => Asked;
  /** From what was begun here to its end. */
  readonly finish: (
    definition: DirectiveDefinition<object>,
    params: object,
    begun: Directive,
  ) => Promise<Directive>;
  readonly isStopping: () => boolean;
}

/** Directives that are not done when they are asked for: until somebody approves, or for later. */
export class WaitingDirectives {
  readonly #context: LedgerContext;
  readonly #log: Log;
  readonly #starter: DirectiveStarter;
  readonly #beginning = new Map<string, Promise<void>>();

  constructor(context: LedgerContext, starter: DirectiveStarter) {
    this.#context = context;
    this.#log = context.log.child('directive');
    this.#starter = starter;
  }

  /** Records one that waits, unless it was asked for before. */
  async putOff(
    draft: DirectiveDraft,
    wait: DirectiveWait,
  ): Promise<{ directive: Directive; isNew: boolean }> {
    const { ledger, processId, commits } = this.#context;
    const { directive, verdict } = await ledger.directives.create({
      draft,
      processId,
      work: { kind: 'process' },
      wait,
      begin: followDirective(draft, 'requested', directiveRulesOf(this.#context)),
      ends: followEnds(draft, directiveRulesOf(this.#context)),
    });
    if (verdict === 'mismatch') throw mismatch(directive);
    const isNew = verdict === 'recorded';
    if (isNew) {
      logDirective(directive, this.#log);
      commits.publish({ moments: [{ directive: directive, moment: 'requested' }] });
    }
    return { directive, isNew };
  }

  /** Lets one begin that waits for approval; here and now, unless it is for later. */
  async approve(id: string, by: Decider): Promise<DirectAnswer> {
    const { ledger, commits } = this.#context;
    const directive = await readDirective(ledger, id);
    await this.refuseApproval(directive, by);
    const follows = followDirective(directive, 'approved', directiveRulesOf(this.#context));
    const isOurs = await ledger.directives.approve({ id, actor: by.actor, ...follows });
    const now = await readDirective(ledger, id);
    // Whoever approved it before is told what became of it.
    if (now.approvedBy !== by.actor) throw notWaiting(now);
    if (isOurs) {
      logDirective(now, this.#log);
      commits.publish({ moments: [{ directive: now, moment: 'approved' }] });
    }
    if (!isFinal(now.status)) await this.#begin(now);
    return toAnswer(await readDirective(ledger, id), !isOurs);
  }

  async refuseApproval(directive: Directive, by: Decider): Promise<void> {
    const { id, status, awaitingApproval, approvedBy } = directive;
    const isOpen = awaitingApproval && status === 'requested';
    if (!isOpen && approvedBy !== by.actor) throw notWaiting(directive);
    const isOwn = await isOwnRequest(directive, by.actor, this.#context.ledger);
    const refusal = explainRefusal(
      { ...directive, isOwn },
      by,
      this.#context.config.directives.approval,
    );
    if (refusal === undefined) return;
    const hint = 'It waits until then; `ductile directive cancel` ends it.';
    throw new DuctileError('FORBIDDEN', refusal, { place: id, hint });
  }

  /** Ends one before it begins. */
  async cancel(id: string, by: Pick<Decider, 'actor'>): Promise<DirectAnswer> {
    const { ledger, commits } = this.#context;
    const directive = await readDirective(ledger, id);
    const follows = followDirective(directive, 'cancelled', directiveRulesOf(this.#context));
    const isOurs = await ledger.directives.cancel({ id, actor: by.actor, ...follows });
    const now = await readDirective(ledger, id);
    if (now.status !== 'cancelled') throw notWaiting(now);
    if (isOurs) {
      logDirective(now, this.#log);
      commits.publish({ moments: [{ directive: now, moment: 'cancelled' }] });
    }
    commits.publish({ claimable: true, advancing: true });
    return toAnswer(now, !isOurs);
  }

  /** Begins what has waited long enough, and leaves it under way. */
  async beginDue(): Promise<void> {
    if (this.#starter.isStopping()) return;
    const types = [...this.#starter.types.keys()];
    const due = await this.#context.ledger.directives.listDue(types, limits.directivesStartedMax);
    for (const directive of due) void this.#begin(directive);
  }

  /** Resolves when none is being begun or under way. */
  async settled(): Promise<void> {
    await Promise.all(this.#beginning.values());
  }

  /** Unless somebody else begins it; what goes wrong is tried again with the next look. */
  #begin(directive: Directive): Promise<void> {
    const { id } = directive;
    const known = this.#beginning.get(id);
    if (known !== undefined) return known;
    const beginning = this.#beginWaiting(directive)
      .catch((error: unknown) => {
        const fields = { directive_id: id, type: directive.type, error: messageOf(error) };
        this.#log.warn('a directive could not be begun yet', fields);
      })
      .finally(() => this.#beginning.delete(id));
    this.#beginning.set(id, beginning);
    return beginning;
  }

  async #beginWaiting(directive: Directive): Promise<void> {
    const { ledger, processId, quota, commits } = this.#context;
    const { types, authorize, askedOf, finish, isStopping } = this.#starter;
    const definition = types.get(directive.type);
    if (definition === undefined || isStopping()) return;
    const params = parseJson(directive.params) as object;
    const prepared = await prepareLate(async () => {
      await authorize(directive);
      const known = parseParams({ params: definition.recorded ?? definition.params }, params);
      await definition.plan(known);
      return await prepareWork(definition, known, askedOf(directive));
    });
    const begun = await admitWork(prepared, quota, () =>
      ledger.directives.start({
        directive,
        processId,
        work: prepared.work,
        begin: followDirective(directive, 'started', directiveRulesOf(this.#context)),
        ends: followEnds(directive, directiveRulesOf(this.#context)),
      }),
    );
    if (begun === undefined) return;
    commits.publish({ moments: [{ directive: begun, moment: 'started' }] });
    await finish(definition, params, begun);
  }
}

/** Whether the decider requested it, or had a job or another token of theirs request it. */
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

/** What made sense when it was asked for, or was allowed, may not be any more: then that is its end. */
async function prepareLate(prepare: () => Promise<Prepared>): Promise<Prepared> {
  try {
    return await prepare();
  } catch (thrown) {
    const error = toDuctileError(thrown);
    if (error.kind.retryable) throw error;
    return { work: { kind: 'refused', end: endFailed(error) } };
  }
}
