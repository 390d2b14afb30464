import { isObject, type JsonObject, type Json } from '../../base/json.ts';
import { messageOf } from '../../base/errors.ts';
import { evaluateCondition, type Condition } from './condition.ts';
import type { PipelineEntry } from './entry.ts';
import type { Graph } from './graph.ts';
import { renderTemplate, type Template, type Scope } from './template.ts';
import { createHash } from 'node:crypto';
import type { Log } from '../../base/log.ts';
import type { RunDraft } from '../run/types.ts';

/** An active pipeline. */
export interface Pipeline {
  readonly name: string;
  /** The type of the events that start it. Undefined if it is only started by name or called. */
  readonly on: string | undefined;
  readonly fromPlugin: string | undefined;
  readonly when: Condition | undefined;
  readonly mode: 'async' | 'synchronous';
  /** The time that a synchronous caller waits. The run continues afterwards. */
  readonly timeoutMs: number;
  /** The maximum number of concurrent runs per key. */
  readonly concurrency: { readonly key: Template; readonly limit: number } | undefined;
  readonly graph: Graph;
  readonly place: string;
  /** The entry as written, for views and drawings. */
  readonly entry: PipelineEntry;
}

interface PipelineTrigger extends RoutedEvent {
  readonly payload: JsonObject;
  readonly context: JsonObject;
}

interface MatchedPipelines {
  readonly started: readonly Pipeline[];
  /** Pipelines for this event whose condition doesn't hold. */
  readonly rejected: readonly Pipeline[];
  /** Pipelines whose condition can't be evaluated. */
  readonly skipped: readonly { readonly pipeline: Pipeline; readonly message: string }[];
}

/** Finds the pipelines that an event starts, in the order of definition. */
export function matchPipelines(
  pipelines: readonly Pipeline[],
  { payload, context, ...event }: PipelineTrigger,
): MatchedPipelines {
  const started: Pipeline[] = [];
  const rejected: Pipeline[] = [];
  const skipped: { pipeline: Pipeline; message: string }[] = [];
  for (const pipeline of pipelines.filter((candidate) => isPipelineFor(candidate, event))) {
    const { when } = pipeline;
    try {
      const holds = when === undefined || evaluateCondition(when, { payload, context });
      (holds ? started : rejected).push(pipeline);
    } catch (thrown) {
      skipped.push({ pipeline, message: messageOf(thrown) });
    }
  }
  return { started, rejected, skipped };
}

/** Compares type and source only, without the condition. */
export function isPipelineFor(
  { on, fromPlugin }: Pick<Pipeline, 'on' | 'fromPlugin'>,
  event: RoutedEvent,
): boolean {
  return matchesEventType(on, event) && (fromPlugin === undefined || fromPlugin === event.source);
}

/** A rule that sends an event to a plugin. */
export interface Route {
  /** Undefined accepts every source. */
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

/** Matches every event type before a delivery exists. No event type contains this character. */
export const ANY_EVENT = '*';

/**
 * Compares the type of a rule with an event. A delivery's signal of type `webhook.received` with
 * the event `push` also matches `webhook.received.push`.
 */
export function matchesEventType(
  expected: string | undefined,
  { type, event }: Omit<RoutedEvent, 'source'>,
) {
  if (expected === type) return true;
  if (event === ANY_EVENT) return expected?.startsWith(`${type}.`) === true;
  return event !== undefined && expected === `${type}.${event}`;
}

/** Finds the routes for an event, in the order of definition. Types and sources match exactly. */
export function matchRoutes<R extends Pick<Route, 'from' | 'eventType'>>(
  routes: readonly R[],
  event: RoutedEvent,
): R[] {
  return routes.filter(
    ({ from, eventType }) =>
      matchesEventType(eventType, event) && (from === undefined || from === event.source),
  );
}

/** The fields of a run that come from the definition of its pipeline. */
export type PipelineStart = Pick<RunDraft, 'pipeline' | 'definitionHash' | 'concurrency'>;

/**
 * Finds the pipelines that a signal starts. The signal's content is read only if a pipeline expects
 * its type.
 */
export type FindPipelineStarts = (
  signal: RoutedEvent,
  read: () => Scope,
) => readonly PipelineStart[];

export function createPipelineMatcher(
  pipelines: readonly Pipeline[],
  log: Log,
): FindPipelineStarts {
  const types = new Set(pipelines.map(({ on }) => on));
  return (signal, read) => {
    const { type, event } = signal;
    const isExpected =
      types.has(type) || (typeof event === 'string' && types.has(`${type}.${event}`));
    if (!isExpected) return [];
    const scope = read();
    const { started, skipped } = matchPipelines(pipelines, { ...signal, ...scope });
    for (const { pipeline, message } of skipped) logSkippedPipeline(pipeline, message, signal, log);
    return started.map((pipeline) => {
      try {
        return toPipelineStart(pipeline, scope);
      } catch (thrown) {
        logMissingKey(pipeline, messageOf(thrown), signal, log);
        return createPipelineStart(pipeline, null);
      }
    });
  };
}

/** Throws if the concurrency key can't be rendered from the payload. */
export function toPipelineStart(pipeline: Pipeline, scope: Scope): PipelineStart {
  const { concurrency } = pipeline;
  return createPipelineStart(
    pipeline,
    concurrency === undefined ? null : renderTemplate(concurrency.key, scope),
  );
}

function createPipelineStart({ name, graph, concurrency }: Pipeline, value: Json): PipelineStart {
  const start = { pipeline: name, definitionHash: graph.hash };
  if (concurrency === undefined) return start;
  const key = JSON.stringify([name, value]);
  // Hashed, because the key is part of an index.
  const digest = createHash('sha256').update(key).digest('base64url');
  return { ...start, concurrency: { key: digest, limit: concurrency.limit } };
}

/** A run needs an object, so other values are wrapped. */
export function toRunPayload(payload: Json): JsonObject {
  return isObject(payload) ? payload : { value: payload };
}

/** Logs instead of throwing: the event must not be lost, and no caller could fix the key. */
function logMissingKey(
  { name }: Pipeline,
  reason: string,
  { source, type }: { readonly source: string; readonly type: string },
  log: Log,
): void {
  const message = 'the concurrency key of a run cannot be computed; the run uses the key for null';
  log.warn(message, { pipeline: name, type, source, reason });
}

function logSkippedPipeline(
  { name }: Pipeline,
  reason: string,
  signal: { readonly source: string; readonly type: string },
  log: Log,
): void {
  const { source, type } = signal;
  log.warn('a pipeline was not started, because its condition cannot be evaluated', {
    pipeline: name,
    type,
    source,
    reason,
  });
}
