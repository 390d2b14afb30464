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
import type { SignalDirective, ListSignalDirectives } from '../signal/signal.ts';
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

/** The role of directives that handlers request. */
export const HANDLER_ROLE = 'admin';

/** The types of directives that a handler may request, by name. */
export type HandlerTypes = ReadonlyMap<string, DirectiveType<object>>;

/**
 * Finds the types that handlers may request. They stop, resume or end something. None of them starts
 * work, so that no handler can trigger itself for ever.
 */
export function findHandlerTypes(types: readonly DirectiveType<object>[]): HandlerTypes {
  const allowed = types.filter(({ isForHandlers }) => isForHandlers === true);
  return new Map(allowed.map((type) => [type.type, type]));
}

type HandlerEntry = Pick<HandlerConfig, 'name' | 'directive' | 'params' | 'place'>;

/** Finds what is wrong with handlers before there is a signal. */
export function checkHandlers(handlers: readonly HandlerEntry[], types: HandlerTypes): Problem[] {
  return handlers.flatMap(({ directive, name, place, params }) => {
    const type = types.get(directive);
    if (type === undefined) {
      const message = `requests ${directive}, which a handler may not request`;
      const hint = suggest(directive, [...types.keys()], 'directives that it may request');
      return [makeProblem(place, `handlers ${name}`, message, hint)];
    }
    return checkParams(params, type).map(({ key, message, hint }) =>
      makeProblem(place, `handlers ${name} params${key === '' ? '' : `.${key}`}`, message, hint),
    );
  });
}

/** Checks the handlers of a package, without the values that only an installation has. */
export function checkPackageHandlers(
  { slug, place }: Pick<Package, 'slug' | 'place'>,
  { handlers }: Pick<Provides, 'handlers'>,
  types: HandlerTypes,
): Problem[] {
  const entries = handlers.flatMap((entry, index): HandlerEntry[] => {
    const read = handlerSchema.safeParse(entry);
    return read.success ? [{ ...read.data, name: `${slug}/${index + 1}`, place }] : [];
  });
  return checkHandlers(entries, types);
}

/** Ignores problems of values that are filled in later. */
function checkParams(params: Template, type: DirectiveType<object>): Problem[] {
  const open: KeyPath[] = [];
  const value = createSample(params, [], open);
  const parsed = type.params.safeParse(value);
  if (parsed.success) return [];
  const issues = parsed.error.issues.filter(
    (issue) =>
      issue.code === 'unrecognized_keys' || !open.some((path) => overlaps(issue.path, path)),
  );
  const where = { value, problems: [], placeOf: () => '' };
  return describeIssues(issues, type.params, where, { whole: 'as a whole' });
}

/** True if one path is a part of the other. */
function overlaps(one: readonly PropertyKey[], other: KeyPath): boolean {
  const length = Math.min(one.length, other.length);
  return one.slice(0, length).every((key, index) => key === other[index]);
}

/** Creates a sample of a template, and adds the paths that are filled in later to `open`. */
function createSample(template: Template, path: KeyPath, open: KeyPath[]): Json {
  if ('list' in template) {
    return template.list.map((item, index) => createSample(item, [...path, index], open));
  }
  if ('map' in template) {
    const entries = Object.entries(template.map);
    return Object.fromEntries(
      entries.map(([key, inner]) => [key, createSample(inner, [...path, key], open)]),
    );
  }
  if ('value' in template) return template.value;
  open.push(path);
  return 'open';
}

/** Finds the directives that signals request by the handlers of the active configuration. */
export function makeSignalDirectiveRule(
  config: () => Config,
  types: HandlerTypes,
  log: Log,
): ListSignalDirectives {
  // A repeated transaction must request the same directives, with the same ids.
  const bySignal = new WeakMap<SignalDraft, readonly SignalDirective[]>();
  return (signal) => {
    const { handlers, service, directives } = config();
    if (handlers.length === 0 || signal.hops > service.maxHops) return [];
    const known = bySignal.get(signal);
    if (known !== undefined) return known;
    const sender = senderOf(signal.source);
    const event = { type: signal.type, event: eventBehind(signal) };
    const drafts = handlers
      .filter(({ on, from = sender }) => matchesEventType(on, event) && from === sender)
      .flatMap((handler) => {
        const forApproval = Object.hasOwn(directives.approval, handler.directive);
        const type = types.get(handler.directive);
        const created = type && createDirective(handler, type, signal, log);
        return created === undefined ? [] : [{ ...created, forApproval }];
      });
    if (drafts.length > 0) bySignal.set(signal, drafts);
    return drafts;
  };
}

function createDirective(
  handler: HandlerConfig,
  type: DirectiveType<object>,
  signal: SignalDraft,
  log: Log,
): Omit<SignalDirective, 'forApproval'> | undefined {
  const { installation, directive, name } = handler;
  const params = renderParams(handler, type, signal, log);
  if (params === undefined) return undefined;
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
      plan: JSON.stringify([`Handler ${name} of installation ${installation.slug} requested it.`]),
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

/** Fills the params from the signal. If the signal lacks a value, it logs that and returns undefined. */
function renderParams(
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
    log.warn('a handler could not request its directive', { ...fields, reason: messageOf(thrown) });
    return undefined;
  }
}
