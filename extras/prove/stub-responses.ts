import { isObject, type Json, type JsonObject } from '../../src/base/json.ts';
import { parseJson } from '../../src/base/parse-json.ts';
import type { Attempt } from '../../src/job/attempt.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import type { Pipeline } from '../../src/pipeline/language/pipeline.ts';
import type { Plugin } from '../../src/plugin/catalog.ts';
import type { ManifestCommand } from '../../src/plugin/manifest.ts';
import { parseResponse } from '../../src/plugin/response.ts';
import { sampleOf } from './sample.ts';

/** Response of a stand-in for a plugin's command. */
export interface StandInAnswer {
  readonly plugin: string;
  readonly command: string;
  /** Step of a pipeline that it is for; undefined for every step. */
  readonly step: string | undefined;
  readonly response: JsonObject;
  /** `recorded`: as it responded to an earlier job. */
  readonly by: 'recorded' | 'output_schema' | 'echo';
  readonly jobId: string | undefined;
  /** Part that was removed from it. */
  readonly without: string | undefined;
}

/** Attempts of a plugin that are searched for one of each command. */
const ATTEMPTS_READ = 500;
/** Runs of a pipeline, and steps of a run, that are searched for one of each step. */
const RUNS_READ = 5;
const STEPS_READ = 200;
/** A response is used many times. */
const EVENTS_MAX = 3;
const BYTES_MAX = 256 * 1024;

/** Reads the latest success of each command, and creates a fitting response for the others. */
export async function readAnswers(
  ledger: Ledger,
  plugins: ReadonlyMap<string, Plugin>,
  pipelines: readonly Pick<Pipeline, 'name'>[],
): Promise<StandInAnswer[]> {
  const answers: StandInAnswer[] = [];
  for (const { name } of pipelines) answers.push(...(await readSteps(ledger, name)));
  for (const { name, manifest } of plugins.values()) {
    const recorded = await readRecorded(ledger, name);
    for (const command of Object.values(manifest.commands)) {
      answers.push(recorded.get(command.name) ?? inventAnswer(name, command));
    }
  }
  return answers;
}

async function readRecorded(ledger: Ledger, plugin: string): Promise<Map<string, StandInAnswer>> {
  const found = new Map<string, StandInAnswer>();
  const attempts = await ledger.attempts.list({
    plugin,
    status: 'succeeded',
    limit: ATTEMPTS_READ,
  });
  const newest = attempts.toSorted((a, b) => (a.completedAt < b.completedAt ? 1 : -1));
  for (const attempt of newest) {
    const { command } = attempt;
    if (found.has(command) || !isUsable(attempt)) continue;
    found.set(command, recordedAnswer(attempt, attempt.result));
  }
  return found;
}

/** Reads the responses of each step in the latest runs: one command can be several steps. */
async function readSteps(ledger: Ledger, pipeline: string): Promise<StandInAnswer[]> {
  const found = new Map<string, StandInAnswer>();
  for (const { id: runId } of await ledger.runs.list({ pipeline, limit: RUNS_READ })) {
    const steps = await ledger.runs.listSteps({ runId, limit: STEPS_READ });
    const wanted = new Map(
      steps.flatMap(({ node, jobId }) =>
        jobId === null || found.has(node) ? [] : [[jobId, node]],
      ),
    );
    for (const attempt of await ledger.attempts.listByJob([...wanted.keys()])) {
      const step = wanted.get(attempt.jobId);
      if (step === undefined || found.has(step) || !isUsable(attempt)) continue;
      found.set(step, { ...recordedAnswer(attempt, attempt.result), step });
    }
  }
  return [...found.values()];
}

function isUsable<A extends Pick<Attempt, 'status' | 'result'>>(
  attempt: A,
): attempt is A & { readonly result: string } {
  const { status, result } = attempt;
  if (status !== 'succeeded' || result === null || result.length > BYTES_MAX) return false;
  return parseResponse(Buffer.from(result)).status === 'ok';
}

function recordedAnswer(
  { plugin, command, jobId }: Pick<Attempt, 'plugin' | 'command' | 'jobId'>,
  result: string,
): StandInAnswer {
  const response = parseJson(result) as JsonObject;
  return { plugin, command, step: undefined, by: 'recorded', jobId, ...bounded(response) };
}

function bounded(response: JsonObject): Pick<StandInAnswer, 'response' | 'without'> {
  const { events } = response;
  if (!Array.isArray(events) || events.length <= EVENTS_MAX)
    return { response, without: undefined };
  const without = `${events.length - EVENTS_MAX} of its ${events.length} events`;
  return { response: { ...response, events: events.slice(0, EVENTS_MAX) }, without };
}

function inventAnswer(plugin: string, command: ManifestCommand): StandInAnswer {
  const { name, outputSchema, values } = command;
  const ok = { status: 'ok', result: 'stand-in' };
  const shared = { plugin, command: name, step: undefined, jobId: undefined, without: undefined };
  const [emitted] = values.emit;
  if (outputSchema === undefined) return { ...shared, by: 'echo', response: ok };
  const event: Json = {
    type: emitted?.event ?? `${plugin}.${name}`,
    payload: sampleOf(outputSchema),
  };
  return { ...shared, by: 'output_schema', response: { ...ok, events: [event] } };
}

/** Finds the commands that an event of a response starts, as `plugin.command`. */
export type Follows = (answer: StandInAnswer, eventType: string) => readonly string[];

/**
 * Removes events that would start their own command again. The real plugin stops at some point; its
 * stand-in would loop.
 */
export function breakCircles(answers: readonly StandInAnswer[], follows: Follows): StandInAnswer[] {
  const byName = Map.groupBy(answers, nameOf);
  const next = (name: string): string[] =>
    (byName.get(name) ?? []).flatMap((answer) =>
      eventsOf(answer).flatMap((type) => follows(answer, type)),
    );
  return answers.map((answer) => {
    const name = nameOf(answer);
    const seen = new Set<string>();
    const waiting = next(name);
    for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
      if (seen.has(at)) continue;
      seen.add(at);
      waiting.push(...next(at));
    }
    if (!seen.has(name)) return answer;
    const { events: _, ...response } = answer.response;
    return { ...answer, response, without: 'its events, which would start it again for ever' };
  });
}

function eventsOf({ response: { events } }: StandInAnswer): string[] {
  if (!Array.isArray(events)) return [];
  return events.flatMap((event) =>
    isObject(event) && typeof event['type'] === 'string' ? event['type'] : [],
  );
}

function nameOf({ plugin, command }: StandInAnswer): string {
  return `${plugin}.${command}`;
}
