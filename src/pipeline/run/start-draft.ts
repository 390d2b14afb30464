import { createHash } from 'node:crypto';
import { messageOf } from '../../base/errors.ts';
import { isObject, type Json, type JsonObject } from '../../base/json.ts';
import type { Log } from '../../base/log.ts';
import type { RunDraft } from './types.ts';
import { matchPipelines, type Pipeline } from '../language/pipeline.ts';
import type { RoutedEvent } from '../route.ts';
import type { Scope } from '../language/scope.ts';
import { render } from '../language/template.ts';

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
