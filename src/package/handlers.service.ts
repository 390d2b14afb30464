import { messageOf } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import { toCanonicalJson, isObject, type Json, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { parseJson } from '../base/parse-json.ts';
import type { Config, HandlerConfig } from '../config/config.ts';
import { handlerSchema } from '../config/installed.ts';
import type { KeyPath } from '../config/document.ts';
import { describeIssues } from '../config/issues.ts';
import { suggest } from '../base/text.ts';
import { makeProblem, type Problem } from '../config/problem.ts';
import { automaticKey, nounOf, type DirectiveType } from '../directive/directive.ts';
import {
  cancelType,
  pauseType,
  resumeType,
  disablePluginType,
  enablePluginType,
} from '../job/directives.ts';
import { cancelRunType } from '../pipeline/run/change-directives.ts';
import {
  pauseScheduleType,
  resetBreakerType,
  resumeScheduleType,
} from '../schedule/change-directives.ts';
import type { SignalDirective, ListSignalDirectives } from '../ledger/directive-work.ts';
import { installationActor, type Package, type Provides } from './package.ts';
import { type Template, renderTemplate } from '../pipeline/language/template.ts';
import {
  eventBehind,
  metadataOf,
  RUNTIME_SOURCE,
  senderOf,
  type SignalDraft,
} from '../signal/signal.ts';
import { matchesEventType } from '../pipeline/language/pipeline.ts';

export const HANDLER_ROLE = 'admin';

/**
 * What a handler may ask for: what stops, lets go on or ends something. None of them makes work of its
 * own, so that no handler can keep itself busy.
 */
const types: ReadonlyMap<string, DirectiveType<object>> = new Map(
  [
    cancelType,
    cancelRunType,
    pauseScheduleType,
    resumeScheduleType,
    resetBreakerType,
    enablePluginType,
    disablePluginType,
    pauseType,
    resumeType,
  ].map((type) => [type.type, type]),
);

type Asking = Pick<HandlerConfig, 'name' | 'directive' | 'params' | 'place'>;

/** What is wrong with handlers, as far as that can be told before there is a signal. */
export function checkHandlers(handlers: readonly Asking[]): Problem[] {
  return handlers.flatMap(({ directive, name, place, params }) => {
    const type = types.get(directive);
    if (type === undefined) {
      const message = `asks for ${directive}, which is nothing that a handler may ask for`;
      const hint = suggest(directive, [...types.keys()], 'directives that it may ask for');
      return [makeProblem(place, `handlers ${name}`, message, hint)];
    }
    return checkParams(params, type).map(({ key, message, hint }) =>
      makeProblem(place, `handlers ${name} params${key === '' ? '' : `.${key}`}`, message, hint),
    );
  });
}

/** The same for a package by itself; what only an installation can say of them is left out. */
export function checkPackaged(
  { slug, place }: Pick<Package, 'slug' | 'place'>,
  { handlers }: Pick<Provides, 'handlers'>,
): Problem[] {
  const asking = handlers.flatMap((entry, index): Asking[] => {
    const read = handlerSchema.safeParse(entry);
    return read.success ? [{ ...read.data, name: `${slug}/${index + 1}`, place }] : [];
  });
  return checkHandlers(asking);
}

/** What is filled in later is taken to be right. */
function checkParams(params: Template, type: DirectiveType<object>): Problem[] {
  const open: KeyPath[] = [];
  const value = sampleOf(params, [], open);
  const parsed = type.params.safeParse(value);
  if (parsed.success) return [];
  const issues = parsed.error.issues.filter(
    (issue) => issue.code === 'unrecognized_keys' || !open.some((path) => meet(issue.path, path)),
  );
  const where = { value, problems: [], placeOf: () => '' };
  return describeIssues(issues, type.params, where, { whole: 'as a whole' });
}

/** One lies within the other. */
function meet(one: readonly PropertyKey[], other: KeyPath): boolean {
  const length = Math.min(one.length, other.length);
  return one.slice(0, length).every((key, index) => key === other[index]);
}

/** A value of the same form, with anything where something is to be filled in: those places are `open`. */
function sampleOf(template: Template, path: KeyPath, open: KeyPath[]): Json {
  if ('list' in template) {
    return template.list.map((item, index) => sampleOf(item, [...path, index], open));
  }
  if ('map' in template) {
    const entries = Object.entries(template.map);
    return Object.fromEntries(
      entries.map(([key, inner]) => [key, sampleOf(inner, [...path, key], open)]),
    );
  }
  if ('value' in template) return template.value;
  open.push(path);
  return 'open';
}

/** What the signals of a ledger ask for, under the configuration in force. */
export function makeSignalDirectiveRule(config: () => Config, log: Log): ListSignalDirectives {
  // A transaction may be tried again, and then asks for the same.
  const asked = new WeakMap<SignalDraft, readonly SignalDirective[]>();
  return (signal) => {
    const { handlers, service, directives } = config();
    if (handlers.length === 0 || signal.hops > service.maxHops) return [];
    const known = asked.get(signal);
    if (known !== undefined) return known;
    const sender = senderOf(signal.source);
    const event = { type: signal.type, event: eventBehind(signal) };
    const drafts = handlers
      .filter(({ on, from = sender }) => matchesEventType(on, event) && from === sender)
      .flatMap((handler) => {
        const forApproval = Object.hasOwn(directives.approval, handler.directive);
        const made = draft(handler, signal, log);
        return made === undefined ? [] : [{ ...made, forApproval }];
      });
    if (drafts.length > 0) asked.set(signal, drafts);
    return drafts;
  };
}

function draft(
  handler: HandlerConfig,
  signal: SignalDraft,
  log: Log,
): Omit<SignalDirective, 'forApproval'> | undefined {
  const { installation, directive, name } = handler;
  const type = types.get(directive);
  const params = type === undefined ? undefined : paramsOf(handler, type, signal, log);
  if (type === undefined || params === undefined) return undefined;
  const id = makeId();
  const target = `${nounOf(directive)}:${type.target(params)}`;
  const actor = installationActor(installation.slug);
  const payload: JsonObject = {
    directive_id: id,
    type: directive,
    target,
    actor,
    status: 'requested',
  };
  return {
    draft: {
      id,
      type: directive,
      target,
      params: toCanonicalJson(params),
      actor,
      actorRole: HANDLER_ROLE,
      scope: type.scope,
      sameness: { key: automaticKey(`handler:${installation.id}`, name, signal.id) },
      correlationId: signal.correlationId,
      causationId: signal.id,
      maxAttempts: type.isRepeatable === true ? limits.directiveAttemptsMax : 1,
      plan: JSON.stringify([`${name} of the installation ${installation.slug} asks for it.`]),
      signalId: makeId(),
    },
    signal: {
      id: makeId(),
      type: 'directive.requested',
      source: RUNTIME_SOURCE,
      subjectType: 'directive',
      subjectId: id,
      data: JSON.stringify(payload),
      metadata: JSON.stringify(metadataOf(actor, HANDLER_ROLE)),
      hops: signal.hops + 1,
      correlationId: signal.correlationId,
      causationId: signal.id,
      isQuiet: true,
    },
  };
}

/** Undefined when the signal does not have what the handler needs; then the log says so. */
function paramsOf(
  { params, name }: HandlerConfig,
  type: DirectiveType<object>,
  signal: SignalDraft,
  log: Log,
): object | undefined {
  try {
    const data = parseJson(signal.data) as Json;
    const payload = isObject(data) ? data : { value: data };
    return type.params.parse(renderTemplate(params, { payload, context: {} }));
  } catch (thrown) {
    const fields = { handler: name, signal_id: signal.id, type: signal.type };
    log.warn('a handler cannot ask for what it should', { ...fields, reason: messageOf(thrown) });
    return undefined;
  }
}
