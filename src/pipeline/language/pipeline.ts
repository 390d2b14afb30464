import { isObject, type JsonObject, type Json } from '../../base/json.ts';
import { messageOf } from '../../base/errors.ts';
import { evaluate, type Condition } from './condition.ts';
import type { PipelineEntry } from './entry.ts';
import type { Graph } from './graph.ts';
import { render, type Template, type Scope } from './template.ts';
import { createHash } from 'node:crypto';
import type { Log } from '../../base/log.ts';
import type { RunDraft } from '../run/types.ts';

/** A pipeline as it is in force: when it starts, how it is answered, and what it does. */
export interface Pipeline {
  readonly name: string;
  /** The type of the events that start it; undefined when it is only started by name or called. */
  readonly on: string | undefined;
  readonly fromPlugin: string | undefined;
  readonly when: Condition | undefined;
  readonly mode: 'async' | 'synchronous';
  /** How long a synchronous caller waits for the end; the run goes on after it. */
  readonly timeoutMs: number;
  /** At most so many runs of one key are under way. */
  readonly concurrency: { readonly key: Template; readonly limit: number } | undefined;
  readonly graph: Graph;
  readonly place: string;
  /** As it was written, for those who show and draw it. */
  readonly entry: PipelineEntry;
}

interface PipelineTrigger extends RoutedEvent {
  readonly payload: JsonObject;
  readonly context: JsonObject;
}

interface MatchedPipelines {
  readonly started: readonly Pipeline[];
  /** Those for such events whose condition does not hold. */
  readonly unwanted: readonly Pipeline[];
  /** Those whose condition could not be told, and why. */
  readonly skipped: readonly { readonly pipeline: Pipeline; readonly message: string }[];
}

/** The pipelines that an event starts, in the order of definition. */
export function matchPipelines(
  pipelines: readonly Pipeline[],
  { payload, context, ...event }: PipelineTrigger,
): MatchedPipelines {
  const started: Pipeline[] = [];
  const unwanted: Pipeline[] = [];
  const skipped: { pipeline: Pipeline; message: string }[] = [];
  for (const pipeline of pipelines.filter((one) => isFor(one, event))) {
    const { when } = pipeline;
    try {
      const isWanted = when === undefined || evaluate(when, { payload, context });
      (isWanted ? started : unwanted).push(pipeline);
    } catch (thrown) {
      skipped.push({ pipeline, message: messageOf(thrown) });
    }
  }
  return { started, unwanted, skipped };
}

/** Whether such an event may start it; its own condition is another question. */
export function isFor(
  { on, fromPlugin }: Pick<Pipeline, 'on' | 'fromPlugin'>,
  event: RoutedEvent,
): boolean {
  return isOfType(on, event) && (fromPlugin === undefined || fromPlugin === event.source);
}

/** A rule from an event to the plugin that handles it. */
export interface Route {
  /** Only events of this source; of any when undefined. */
  readonly from: string | undefined;
  readonly eventType: string;
  readonly plugin: string;
  readonly command: string;
}

export interface RoutedEvent {
  readonly source: string;
  readonly type: string;
  /** The event type of a delivery's sender, such as `push`, or `ANY_EVENT`. */
  readonly event?: string | undefined;
}

/** Stands for every event type where a delivery isn't there yet; no event type has this sign. */
export const ANY_EVENT = '*';

/**
 * Whether a rule for a type is for this event. A delivery's signal of type `webhook.received` with the
 * event `push` also matches `webhook.received.push`.
 */
export function isOfType(wanted: string | undefined, { type, event }: Omit<RoutedEvent, 'source'>) {
  if (wanted === type) return true;
  if (event === ANY_EVENT) return wanted?.startsWith(`${type}.`) === true;
  return event !== undefined && wanted === `${type}.${event}`;
}

/** Every route that an event takes, in the order of definition. Words match exactly or not at all. */
export function matchRoutes<R extends Pick<Route, 'from' | 'eventType'>>(
  routes: readonly R[],
  event: RoutedEvent,
): R[] {
  return routes.filter(
    ({ from, eventType }) =>
      isOfType(eventType, event) && (from === undefined || from === event.source),
  );
}

/** What a run has from the definition of its pipeline. */
export type Start = Pick<RunDraft, 'pipeline' | 'definitionHash' | 'concurrency'>;

/** The pipelines that a signal starts; its content is read only when one waits for such signals. */
export type StartsOf = (signal: RoutedEvent, read: () => Scope) => readonly Start[];

export function makeStartsOf(pipelines: readonly Pipeline[], log: Log): StartsOf {
  const wanted = new Set(pipelines.map(({ on }) => on));
  return (signal, read) => {
    const { type, event } = signal;
    const isWanted =
      wanted.has(type) || (typeof event === 'string' && wanted.has(`${type}.${event}`));
    if (!isWanted) return [];
    const scope = read();
    const { started, skipped } = matchPipelines(pipelines, { ...signal, ...scope });
    for (const { pipeline, message } of skipped) tellSkipped(pipeline, message, signal, log);
    return started.map((pipeline) => {
      try {
        return toStart(pipeline, scope);
      } catch (thrown) {
        tellKeyless(pipeline, messageOf(thrown), signal, log);
        return startOf(pipeline, null);
      }
    });
  };
}

/** Throws when the key of its concurrency cannot be told from the payload. */
export function toStart(pipeline: Pipeline, scope: Scope): Start {
  const { concurrency } = pipeline;
  return startOf(pipeline, concurrency === undefined ? null : render(concurrency.key, scope));
}

function startOf({ name, graph, concurrency }: Pipeline, value: Json): Start {
  const start = { pipeline: name, definitionHash: graph.hash };
  if (concurrency === undefined) return start;
  const key = JSON.stringify([name, value]);
  // It is part of an index.
  const digest = createHash('sha256').update(key).digest('base64url');
  return { ...start, concurrency: { key: digest, limit: concurrency.limit } };
}

/** What a run begins with has names. */
export function toRunPayload(payload: Json): JsonObject {
  return isObject(payload) ? payload : { value: payload };
}

/** Nobody is there to correct it, and what was emitted must not be lost. */
function tellKeyless(
  { name }: Pipeline,
  reason: string,
  { source, type }: { readonly source: string; readonly type: string },
  log: Log,
): void {
  const message = 'the concurrency key of a run cannot be told, so it shares that of null';
  log.warn(message, { pipeline: name, type, source, reason });
}

function tellSkipped(
  { name }: Pipeline,
  reason: string,
  signal: { readonly source: string; readonly type: string },
  log: Log,
): void {
  const { source, type } = signal;
  log.warn('a pipeline could not tell whether it wants the event', {
    pipeline: name,
    type,
    source,
    reason,
  });
}
