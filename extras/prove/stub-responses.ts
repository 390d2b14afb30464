import { isObject, type Json, type JsonObject } from '../../src/base/json.ts';
import { parseJson } from '../../src/base/parse-json.ts';
import type { Attempt } from '../../src/job/attempt.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import type { Pipeline } from '../../src/pipeline/language/pipeline.ts';
import type { Plugin } from '../../src/plugin/catalog.ts';
import type { ManifestCommand } from '../../src/plugin/manifest.ts';
import { parseResponse } from '../../src/plugin/response.ts';
import { sampleOf } from './sample.ts';

/** Fixed response of the stub for a plugin's command. */
export interface StubResponse {
  readonly plugin: string;
  readonly command: string;
  /** Step of a pipeline that gets it; undefined for every step. */
  readonly step: string | undefined;
  readonly response: JsonObject;
  /** `recorded`: the real plugin returned it for an earlier job. */
  readonly by: 'recorded' | 'output_schema' | 'echo';
  readonly jobId: string | undefined;
  /** Description of a part that was removed. */
  readonly without: string | undefined;
}

/** Attempts of a plugin that are searched for a success of each command. */
const ATTEMPTS_READ = 500;
/** Runs of a pipeline, and steps of a run, that are searched for a success of each step. */
const RUNS_READ = 5;
const STEPS_READ = 200;
/** Limits for one response, because it is returned many times. */
const EVENTS_MAX = 3;
const BYTES_MAX = 256 * 1024;

/** Reads the latest success of each command, and invents a response for commands without one. */
export async function readStubResponses(
  ledger: Ledger,
  plugins: ReadonlyMap<string, Plugin>,
  pipelines: readonly Pick<Pipeline, 'name'>[],
): Promise<StubResponse[]> {
  const stubs: StubResponse[] = [];
  for (const { name } of pipelines) stubs.push(...(await readSteps(ledger, name)));
  for (const { name, manifest } of plugins.values()) {
    const recorded = await readRecorded(ledger, name);
    for (const command of Object.values(manifest.commands)) {
      stubs.push(recorded.get(command.name) ?? inventResponse(name, command));
    }
  }
  return stubs;
}

async function readRecorded(ledger: Ledger, plugin: string): Promise<Map<string, StubResponse>> {
  const found = new Map<string, StubResponse>();
  const attempts = await ledger.attempts.list({
    plugin,
    status: 'succeeded',
    limit: ATTEMPTS_READ,
  });
  const newest = attempts.toSorted((a, b) => (a.completedAt < b.completedAt ? 1 : -1));
  for (const attempt of newest) {
    const { command } = attempt;
    if (found.has(command) || !isUsable(attempt)) continue;
    found.set(command, toRecordedResponse(attempt, attempt.result));
  }
  return found;
}

/** Reads the responses of each step in the latest runs: several steps can use one command. */
async function readSteps(ledger: Ledger, pipeline: string): Promise<StubResponse[]> {
  const found = new Map<string, StubResponse>();
  for (const { id: runId } of await ledger.runs.list({ pipeline, limit: RUNS_READ })) {
    const steps = await ledger.runs.listSteps({ runId, limit: STEPS_READ });
    const expected = new Map(
      steps.flatMap(({ node, jobId }) =>
        jobId === null || found.has(node) ? [] : [[jobId, node]],
      ),
    );
    for (const attempt of await ledger.attempts.listByJob([...expected.keys()])) {
      const step = expected.get(attempt.jobId);
      if (step === undefined || found.has(step) || !isUsable(attempt)) continue;
      found.set(step, { ...toRecordedResponse(attempt, attempt.result), step });
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

function toRecordedResponse(
  { plugin, command, jobId }: Pick<Attempt, 'plugin' | 'command' | 'jobId'>,
  result: string,
): StubResponse {
  const response = parseJson(result) as JsonObject;
  return { plugin, command, step: undefined, by: 'recorded', jobId, ...limitEvents(response) };
}

function limitEvents(response: JsonObject): Pick<StubResponse, 'response' | 'without'> {
  const { events } = response;
  if (!Array.isArray(events) || events.length <= EVENTS_MAX)
    return { response, without: undefined };
  const without = `${events.length - EVENTS_MAX} of its ${events.length} events`;
  return { response: { ...response, events: events.slice(0, EVENTS_MAX) }, without };
}

function inventResponse(plugin: string, command: ManifestCommand): StubResponse {
  const { name, outputSchema, values } = command;
  const ok = { status: 'ok', result: 'stub' };
  const shared = { plugin, command: name, step: undefined, jobId: undefined, without: undefined };
  const [emitted] = values.emit;
  if (outputSchema === undefined) return { ...shared, by: 'echo', response: ok };
  const event: Json = {
    type: emitted?.event ?? `${plugin}.${name}`,
    payload: sampleOf(outputSchema),
  };
  return { ...shared, by: 'output_schema', response: { ...ok, events: [event] } };
}

/** Lists the commands that an event of a response starts, as `plugin.command`. */
export type FindFollowers = (stub: StubResponse, eventType: string) => readonly string[];

/**
 * Removes events that would start their own command again. A real plugin stops emitting them at some
 * point; its stub would loop forever.
 */
export function breakLoops(
  stubs: readonly StubResponse[],
  findFollowers: FindFollowers,
): StubResponse[] {
  const byName = Map.groupBy(stubs, nameOf);
  const next = (name: string): string[] =>
    (byName.get(name) ?? []).flatMap((stub) =>
      eventsOf(stub).flatMap((type) => findFollowers(stub, type)),
    );
  return stubs.map((stub) => {
    const name = nameOf(stub);
    const seen = new Set<string>();
    const waiting = next(name);
    for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
      if (seen.has(at)) continue;
      seen.add(at);
      waiting.push(...next(at));
    }
    if (!seen.has(name)) return stub;
    const { events: _, ...response } = stub.response;
    return { ...stub, response, without: 'its events, which would start it in an endless loop' };
  });
}

function eventsOf({ response: { events } }: StubResponse): string[] {
  if (!Array.isArray(events)) return [];
  return events.flatMap((event) =>
    isObject(event) && typeof event['type'] === 'string' ? event['type'] : [],
  );
}

function nameOf({ plugin, command }: StubResponse): string {
  return `${plugin}.${command}`;
}
