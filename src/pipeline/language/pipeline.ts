import type { JsonObject } from '../../base/json.ts';
import { messageOf } from '../../base/errors.ts';
import { evaluate, type Condition } from './condition.ts';
import type { PipelineEntry } from './entry.ts';
import type { Graph } from './graph.ts';
import { isOfType, type RoutedEvent } from '../route.ts';
import type { Template } from './template.ts';

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

export interface PipelineTrigger extends RoutedEvent {
  readonly payload: JsonObject;
  readonly context: JsonObject;
}

export interface MatchedPipelines {
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
